"""Attacks by what one record holds: ids, numbers and shapes that something behind the gateway may not take."""

import asyncio
import json
import uuid
from typing import Any, Final

from tests.attack.attack import Attack
from tests.attack.identity import FUTURE, asked
from tests.attack.stage import Stage, sentence, spoken
from tests.support.topic_records import read_all
from topics.catalog import TELEMETRY, TURNS
from turnmill.wire.envelope import encode

RULES: Final = '["secrets", {"name": "password", "path": "$..password"}]'
POSTGRES: Final = {"store": "postgres"}
LARGEST: Final = 2**53 - 1
FIXED: Final = {"v": 1, "agent_id": "agent", "dialect": "vercel-ai", "tenant": "evil", "ts": 1_768_928_342_002}


def record(events: list[Any], seq: int = 0, thread: str | None = None, run: str = "r", **more: Any) -> dict[str, Any]:
    return {**FIXED, "thread_id": thread or str(uuid.uuid4()), "run_id": run, "seq": seq, "events": events, **more}


def lines(*events: Any) -> bytes:
    return "\n".join(json.dumps(event) for event in events).encode()


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


async def two_names_one_key(stage: Stage) -> None:
    events = [{"type": "agent-config", "agent": {"agent_id": name}} for name in ("x\0", "x\\u0000", "x\ud800", "x�")]
    for thread in ("twins", "twins-2"):
        answer = await stage.upload(stage.evil, thread, "r", lines(*events), dialect="thread-protocol")
        assert answer.status_code < 500, answer.text
    facts = [{"type": "thread-metadata", "metadata": {"a\0": 1, "a\\u0000": 2}, "title": "t\0\ud800"}]
    await stage.upload(stage.evil, "twins", "r2", lines(*facts), dialect="thread-protocol")
    for name in ("n\0", "n\\u0000"):
        await stage.publish(record(spoken("twins"), run=name, agent_id=name, end="complete"))
        await stage.upload(stage.evil, "twins", "r3", spoken("x"), agent_id=name, model_name=name, agent_name=name)


async def overflow(stage: Stage) -> None:
    usage = dict.fromkeys(("input_tokens", "output_tokens", "total_tokens", "cache_read_tokens"), LARGEST)
    responses = [{"type": "data-sys-usage", "data": {**usage, "cost": 1e308}}, {"type": "finish-step"}]
    steps = [event for _ in range(1100) for event in ({"type": "start-step"}, *responses)]
    await stage.upload(stage.evil, "sums", "r1", [{"type": "start"}, *steps, {"type": "finish"}])
    message = {"message_type": "response", "agent_id": "a", "timestamp": FUTURE, "model_name": "m", "parts": []}
    message |= {"usage": usage, "duration_ms": LARGEST}
    turn = {"turn_type": "agent", "agent_id": "a", "started_at": FUTURE, "completed_at": FUTURE}
    turn |= {"completion_status": "complete", "total_usage": usage, "messages": [message] * 1100}
    for run in ("r2", "r3"):
        body = lines({"type": "agent-turn", "turn": turn})
        await stage.upload(stage.evil, "sums", run, body, dialect="thread-protocol")

    async def asked_for() -> bool:
        pages = [await stage.operator.get(page) for page in ("/v1/usage?group_by=model", "/v1/threads?limit=1000")]
        assert all(page.status_code == 200 for page in pages), [page.text[:500] for page in pages]
        return "sums" in pages[1].text

    await stage.within_progress(asked_for, lambda: "the thread with the great sums is not stored")


async def strange_times(stage: Stage) -> None:
    for at in (2**63, 2**64, -(2**63), 10**30, -(10**400)):
        events = spoken("when")
        await stage.publish(record(events, dt=[at + n for n in range(len(events))], end="complete"))
    for ts in (0, LARGEST, 253_402_300_800_000):
        await stage.publish(record(spoken("then"), ts=ts, end="complete"))
    for when in ("9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z", "2016-12-31T23:59:60Z"):
        await stage.upload(stage.evil, "when", when, lines(asked("x", submitted_at=when)), dialect="thread-protocol")


async def strange_numbers(stage: Stage) -> None:
    for number in (-1, 2**63, 10**400, 1e308, -1e308, 0.1, True, "7", None, [], {}, "\0", "\ud800"):
        data = {"input_tokens": number, "output_tokens": number, "model": number, "finish_reason": number}
        data |= {"cost": number, "duration_ms": number, "error": number, "provider": number}
        for kind in ("usage", "model", "step", "error", "timing", "cost"):
            events = [{"type": "start"}, {"type": f"data-sys-{kind}", "data": data}, {"type": "finish"}]
            await stage.publish(record(events, run=f"{kind}-{number!r:.50}", end="complete"))


async def deep(stage: Stage) -> None:
    """Nested telemetry, in one fetch with the turns of others, while redaction is on."""
    others = []
    values: list[Any] = []
    for number, levels in enumerate((100, 300, 400, 900, 1020, 1100, 2000, 4000)):
        said = await stage.speak()
        others.append(said)
        whole = {"type": "data-sys-x", "data": "DEEP"}
        for kind, event in (("t", whole), ("e", {"type": "data-deep", "data": "DEEP"})):
            text = encode(record([{"type": "start"}, event, {"type": "finish"}], run=f"{kind}{number}", end="complete"))
            values.append(text.replace(b'"DEEP"', b"[" * levels + b"]" * levels))
        thread = str(uuid.uuid4())
        values.append(encode({**record(spoken(sentence("beside")), thread=thread, end="complete"), "tenant": "acme"}))
        others.append(type(said)(thread, sentence("beside")))
    await stage.publish(*values)
    for levels in (400, 900):
        body = b'data: {"type":"data-sys-x","data":' + b"[" * levels + b"]" * levels + b"}\n\n"
        answer = await stage.upload(stage.evil, "deep", f"r{levels}", body)
        assert answer.status_code < 500, answer.text
    for one in others:
        await stage.is_whole(one)


async def deep_and_large(stage: Stage) -> None:
    """A result that is deeper than a codec's own limit, and so large that it goes to the content store."""
    for levels in (900, 1020, 1200, 3000):
        text = encode(
            record(
                [
                    {"type": "start"},
                    {"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": {}},
                    {"type": "tool-output-available", "toolCallId": "c", "output": ["x" * 150_000, "DEEP"]},
                    {"type": "finish"},
                ],
                end="complete",
            )
        )
        await stage.publish(text.replace(b'"DEEP"', b"[" * levels + b"]" * levels))


async def envelopes(stage: Stage) -> None:
    """Everything that is no envelope, or nearly one, on the key of the victim."""
    good = record([{"type": "start"}])
    wrong: list[Any] = [None, True, 0, -1, 1.5, 2**53, 2**63, 10**400, "", "\0", "\ud800", "x" * 5000, [], {}, [[]]]
    values = [encode({**good, name: value}) for name in (*good, "dt", "run", "end") for value in wrong]
    values += [encode({key: value for key, value in good.items() if key != name}) for name in good]
    values += [
        b"",
        b"\0",
        b"\xff\xfe",
        b"{",
        b"[]",
        b"null",
        b'"' * 1000,
        b"[" * 100_000,
        b'{"v":1e999}',
        b"1" * 50_000,
    ]
    values += [b'{"v":1,"v":2}', encode(good)[:-1], b"\xef\xbb\xbf" + encode(good), encode(good) * 2, b"NaN"]
    for name in ("model_name", "agent_name", "request", "parent_thread_id", "external_id", "traceparent"):
        values += [
            encode(record([{"type": "start"}], run={name: value}, run_id=f"i{n}")) for n, value in enumerate(wrong)
        ]
    said = await stage.speak("order-4730", end="open")
    await stage.publish(*values)

    await stage.all_read()
    assert await stage.letters(), "what can't be used is a dead letter"
    end = await stage.upload(stage.acme, said.thread, "r1", b"", from_seq=len(spoken(said.text)), end="complete")
    assert end.status_code == 200, end.text
    await stage.is_whole(said)


async def rude_uploads(stage: Stage) -> None:
    """Bodies that no SDK sends, over HTTP."""
    bodies = [b"", b"\0" * 1000, b"\xff" * 1000, b"data:" * 50_000, b"\r\n\r" * 10_000, b"data: {}\n\n" * 1000]
    bodies += [b"data: " + b"x" * 2_000_000, b'{"type":"start"}\n' * 3000, b"id: \0\ndata: [1]\n\n"]
    bodies += [b"data: " + b"[" * 10_000]
    for dialect in ("vercel-ai", "pydantic-ai", "thread-protocol", "openai-chat", "anthropic", "auto"):
        named = {f"{dialect}-{number}": body for number, body in enumerate(bodies)}
        asks = [stage.upload(stage.evil, "rude", run, body, dialect=dialect) for run, body in named.items()]
        for answer in await asyncio.gather(*asks):
            assert answer.status_code < 500, answer.text


def around(text: bytes, what: bytes) -> bytes:
    at = text.index(what)
    return text[max(0, at - 300) : at + 100]


async def hidden_secrets(stage: Stage) -> None:
    """A secret in every place that has room for one: what leaves the assembler has none of them."""
    secret = "hunter2-of-evil"
    held = {"password": secret, "nested": [{"password": secret}]}
    events = spoken("secrets")
    kinds = ("data-sys-x", "data-sys-usage", "data-sys-error", "data-app")
    events[2:2] = [{"type": kind, "data": held} for kind in kinds]
    call = {"toolCallId": "c", "toolName": "t"}
    events[2:2] = [
        {"type": "tool-input-available", **call, "input": held},
        {"type": "tool-output-available", "toolCallId": "c", "output": held},
    ]
    await stage.upload(stage.evil, "secrets", "r1", events, request=json.dumps({"messages": [], "password": secret}))
    facts = [{"type": "thread-metadata", "metadata": held}, asked("x", client_metadata={"a:b": held})]
    await stage.upload(stage.evil, "secrets", "r2", lines(*facts), dialect="thread-protocol")

    async def stored() -> bool:
        return (await stage.evil.get("/v1/threads/secrets")).text.count('"turn_type"') >= 2

    await stage.within_progress(stored, lambda: "the runs are not stored")
    await stage.all_read()
    for topic in (TURNS, TELEMETRY):
        found: list[Any] = await read_all(stage.settings, topic)
        leaked = [one.value for one in found if secret.encode() in (one.value or b"")]
        assert not leaked, f"a secret is on the topic {topic.name}: {around(leaked[0], secret.encode())!r}"
    assert secret not in (await stage.evil.get("/v1/threads/secrets")).text, "a secret is stored"


NO_STOP: Final = "stop or delay what others store"
ATTACKS: Final = (
    Attack(
        "two names, one key",
        "ids that differ only in how a NUL or half a surrogate pair is written",
        "stop the store",
        two_names_one_key,
        short=True,
    ),
    Attack("overflow", "1,100 responses of 2^53-1 tokens each, three times", "stop the store", overflow),
    Attack("strange times", "dt of 2^63 and beyond, years 0 and 285428", "stop the store", strange_times),
    Attack("strange numbers", "numbers, texts and lists where telemetry counts", NO_STOP, strange_numbers),
    Attack(
        "deep",
        "values nested 100 to 4,000 deep beside others' turns, with redaction on",
        "lose the turns of others",
        deep,
        short=True,
    ),
    Attack("deep and large", "deep results that go to the content store", "stop the partition", deep_and_large),
    Attack("envelopes", "400 records that are nearly envelopes, on Kafka", NO_STOP, envelopes, short=True),
    Attack(
        "hidden secrets",
        "secrets in telemetry, in facts of the thread, in arguments and results, with a rule for their name",
        "leave the assembler",
        hidden_secrets,
        {"redact": RULES},
    ),
    Attack("rude uploads", "bodies that are no streams, in six dialects", "make the gateway fail", rude_uploads),
    Attack("two names, on Postgres", "the same on Postgres", "stop the store", two_names_one_key, POSTGRES),
    Attack("overflow, on Postgres", "the same on Postgres", "stop the store", overflow, POSTGRES),
    Attack("strange times, on Postgres", "the same on Postgres", "stop the store", strange_times, POSTGRES),
    Attack("strange numbers, on Postgres", "the same on Postgres", NO_STOP, strange_numbers, POSTGRES),
)
