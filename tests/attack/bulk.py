"""Attacks by size and by age: what fills a worker's or a gateway's memory, holds it up, or comes too late."""

import asyncio
import json
import uuid
from typing import Any, Final

from tests.attack.attack import Attack
from tests.attack.identity import asked
from tests.attack.poison import lines, record
from tests.attack.stage import Said, Stage, agent_turns, sentence, spoken, text_of
from tests.support.gateways import sse

MIB: Final = 1 << 20
WAITING: Final = 100 * MIB  # bytes of events that wait for their beginning
GROWTH: Final = 350 * MIB  # what a worker may take more than before, for one tenant's flood
FORGETS: Final = {"dedupe_window": 2.0, "reopen_window": 1.0, "terminal_grace": 0.5}
FORKS: Final = 5000  # answers to one question
ID: Final = 500  # characters of a run's id
PACKED: Final = 18  # runs
INLINE: Final = {"content": "inline"}


def filler(size: int) -> dict[str, Any]:
    return {"type": "text-delta", "id": "t", "delta": "x" * size}


def results(count: int, size: int) -> list[dict[str, Any]]:
    """A run with so many results of a tool, each different."""
    found: list[dict[str, Any]] = [{"type": "start"}, {"type": "start-step"}]
    for number in range(count):
        call = {"toolCallId": f"c{number}", "toolName": "dump"}
        found.append({"type": "tool-input-available", **call, "input": {}})
        output = f"{number} ".ljust(size, "r")
        found.append({"type": "tool-output-available", "toolCallId": f"c{number}", "output": output})
    return [*found, {"type": "finish-step"}, {"type": "finish"}]


async def grown(stage: Stage, before: int, most: int = GROWTH) -> None:
    after = stage.worker.peak()
    assert after - before < most, f"the worker took {after - before >> 20} MiB more"


async def never_begins(stage: Stage) -> None:
    before = stage.worker.peak()
    body = [filler(200_000)] * 50
    for number in range(WAITING // 10_000_000):
        answer = await stage.upload(stage.evil, "early", "one", body, from_seq=1 + 50 * number, end="open")
        assert answer.status_code < 500 or answer.status_code == 503, answer.text
    await stage.all_read()
    await grown(stage, before)


async def many_begin(stage: Stage) -> None:
    """Twenty thousand runs, each open with a few bytes, and thousands that wait for their beginning."""
    before = stage.worker.peak()
    for part in range(4):
        runs = [f"run-{part}-{number}" for number in range(5000)]
        await stage.publish(*(record([filler(100)], seq=number % 2, run=run) for number, run in enumerate(runs)))
    await stage.all_read()
    await grown(stage, before)
    await stage.restart_worker()
    await stage.is_whole(await stage.speak())
    await grown(stage, before)


async def inline_results(stage: Stage) -> None:
    """Without a content store: what doesn't fit is refused or cut off, with its bytes kept."""
    thread = str(uuid.uuid4())
    events = results(25, 850_000)
    records = [{**record([event], seq=seq, thread=thread), "tenant": "acme"} for seq, event in enumerate(events)]
    records[-1]["end"] = "complete"
    await stage.publish(*records, key=thread.encode())
    document: dict[str, Any] = {}

    async def stored() -> bool:
        answer = await stage.acme.get(f"/v1/threads/{thread}")
        document.update(answer.json())
        return answer.status_code == 200 and bool(agent_turns(document))

    await stage.within_progress(stored, lambda: "nothing of the turn is stored")
    (turn,) = agent_turns(document)
    kept = json.dumps(turn)
    letters = b"".join([letter.value or b"" for letter in await stage.letters()]).decode("utf-8", "replace")
    lost = [n for n in range(25) if f'"{n} rrr' not in kept and f'"{n} rrr' not in letters]
    assert not lost, f"{len(lost)} of 25 results are neither in the turn nor in a dead letter"
    whole = all(f'"{n} rrr' in kept for n in range(25))
    assert whole or turn["completion_status"] == "interrupted", "a turn without its results is shown as complete"


async def kept_results(stage: Stage) -> None:
    """With a content store, the same and large arguments are stored whole."""
    before = stage.worker.peak()
    events = results(40, 850_000)
    answer = await stage.upload(stage.acme, "large", "r1", events)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = {}

    async def stored() -> bool:
        answer = await stage.acme.get("/v1/threads/large")
        document.update(answer.json())
        return answer.status_code == 200 and agent_turns(document)[-1]["completion_status"] == "complete"

    await stage.within_progress(stored, lambda: f"the turn is not whole: {json.dumps(document)[:500]}")
    inline = (await stage.acme.get("/v1/threads/large?inline=true")).text
    assert all(f'"{n} rrr' in inline for n in range(40)), "a result is lost"
    await grown(stage, before)


async def packed_results(stage: Stage) -> None:
    """A lag of runs of 34 MB, each record of which takes a few hundred bytes of a fetch: 600 MB in one."""
    before = stage.worker.peak()
    stage.worker.end()
    body = sse(results(40, 850_000))
    answers = await asyncio.gather(*(stage.upload(stage.evil, f"packed-{n}", "r", body) for n in range(PACKED)))
    assert {answer.status_code for answer in answers} <= {200, 429, 503}, answers[0].text
    await stage.worker.start().url()
    await stage.all_read()
    await grown(stage, before)


async def references(stage: Stage) -> None:
    """A small event with 200 references to one large object of the caller's own."""
    await stage.upload(stage.evil, "refs", "r1", results(1, 850_000))
    document: dict[str, Any] = {}

    async def stored() -> bool:
        answer = await stage.evil.get("/v1/threads/refs")
        document.update(answer.json())
        return "content_ref" in answer.text

    await stage.within_progress(stored, lambda: "the object is not in the content store")
    turn = agent_turns(document)[0]
    (ref,) = [p["content_ref"] for m in turn["messages"] for p in m.get("parts", ()) if "content_ref" in p]
    parts = [
        {
            "part_kind": "tool-return",
            "status": "success",
            "tool_name": "t",
            "tool_call_id": f"c{n}",
            "content_ref": {**ref, "size_bytes": n},
        }
        for n in range(200)
    ]
    calls = [{"part_kind": "tool-call", "tool_name": "t", "tool_call_id": f"c{n}", "args": {}} for n in range(200)]
    at = "2026-01-20T10:00:00Z"
    said = [
        {"message_type": kind, "agent_id": "a", "timestamp": at, "parts": some}
        for kind, some in (("response", calls), ("request", parts))
    ]
    body = {
        "turn_type": "agent",
        "agent_id": "a",
        "started_at": at,
        "completed_at": at,
        "completion_status": "complete",
    }
    answer = await stage.upload(
        stage.evil,
        "refs",
        "r2",
        lines({"type": "agent-turn", "turn": {**body, "messages": said}}),
        dialect="thread-protocol",
    )
    assert answer.status_code == 200, answer.text

    async def both() -> bool:
        return (await stage.evil.get("/v1/threads/refs")).text.count("content_ref") > 200

    await stage.within_progress(both, lambda: "the references are not stored")
    stage.gateway.forget_peak()
    before = stage.gateway.peak()
    answers = await asyncio.gather(
        *(stage.evil.get(f"/v1/threads/refs?{q}") for q in ("inline=true", "format=vercel-ai"))
    )
    assert all(answer.status_code < 500 for answer in answers), answers
    took = stage.gateway.peak() - before
    assert took < 3 * 67_108_864, f"the gateway took {took >> 20} MiB for two answers"


async def forked(stage: Stage) -> tuple[str, str]:
    """Five thousand answers to one question, each with an id as long as branches know: each branch has one of them. ->
    the thread, and the first run.
    """
    thread = str(uuid.uuid4())
    first = "first".ljust(ID, "-")
    runs = [first, *(f"again-{number}".ljust(ID, "-") for number in range(FORKS))]
    answers = [{**record(spoken(run[:12]), run=run, thread=thread, end="complete"), "tenant": "evil"} for run in runs]
    for answer in answers[1:]:
        answer["run"] = {"replaces": first}
    await stage.publish(*answers, key=thread.encode())
    end: dict[str, Any] = {}

    async def stored() -> bool:
        answer = await stage.evil.get(f"/v1/threads/{thread}?turns=1")
        end.update(answer.json())
        return answer.status_code == 200 and end.get("meta:earlier") == FORKS

    await stage.within_progress(stored, lambda: f"the answers are not stored: {str(end)[:500]}")
    return thread, first


async def forks(stage: Stage) -> None:
    thread, first = await forked(stage)
    stage.gateway.forget_peak()
    before = stage.gateway.peak()
    queries = ("", "branch=", f"branch={first}", "format=vercel-ai", "turns=2", "turns=2&branch=")
    found = await asyncio.gather(*(stage.evil.get(f"/v1/threads/{thread}?{query}") for query in queries))
    assert [answer.status_code for answer in found] == [200] * len(queries)
    assert [len(answer.json().get("turns", ())) for answer in found] == [FORKS + 1, 1, 1, 0, 2, 1]
    assert len(found[0].content) < (FORKS + 1) * 6 * (ID + 400), f"{len(found[0].content) >> 20} MiB for one thread"
    took = stage.gateway.peak() - before
    assert took < 256 * MIB, f"the gateway took {took >> 20} MiB for {len(queries)} answers"


async def slow_pattern(stage: Stage) -> None:
    """Text that makes a backtracking rule stand still: it may cost as much as other text, and not more."""

    async def cost(text: str, run: str) -> float:
        before = stage.worker.cpu()
        delta = [
            {"type": "text-delta", "id": "t", "delta": text[at : at + 500_000]} for at in range(0, len(text), 500_000)
        ]
        events = spoken("")
        await stage.upload(stage.evil, f"slow-{run}", "r", [*events[:3], *delta, *events[3:]])

        async def stored() -> bool:
            return (await stage.evil.get(f"/v1/threads?external_id=slow-{run}")).text.count("thread_id") == 1

        await stage.within_progress(stored, lambda: f"{run} is not stored")
        return stage.worker.cpu() - before

    plain = await cost("some plain words " * 350_000, "plain")
    for run, piece in (
        ("jwt", "-eyJaaaaaaaa"),
        ("jwt-dots", "eyJa.eyJa."),
        ("key", "-----BEGIN PRIVATE KEY-----"),
        ("email", "a.b-c_d%e+"),
        ("url", "http://a:b"),
        ("card", "4 1-1 1-"),
        ("api", "sk-proj-_-"),
    ):
        seconds = await cost(piece * (6_000_000 // len(piece)), run)
        assert seconds < 4 * plain + 3, f"{run}: {seconds:.1f} s of computing, {plain:.1f} s for plain text"


async def late_tail(stage: Stage) -> None:
    """The head is stored and forgotten; then more of the run comes."""
    thread, text = "late", sentence("late")
    said = Said(thread, text)
    events = spoken(text)
    await stage.upload(stage.acme, thread, "r1", events)
    await stage.is_whole(said)
    await stage.upload(stage.acme, "late-native", "r1", lines(asked("A"), asked("B")), dialect="thread-protocol")
    await asyncio.sleep(FORGETS["dedupe_window"] + 2)
    for number in range(3):  # others' runs close meanwhile
        await stage.is_whole(await stage.speak(f"meanwhile-{number}"))
    more: list[dict[str, Any]] = [{"type": "text-start", "id": "more"}]
    more += [{"type": "text-delta", "id": "more", "delta": f"tail {n} "} for n in range(90)]
    at = len(events)
    await stage.upload(stage.acme, thread, "r1", more, from_seq=at, end="complete")
    native = lines(asked("C"), asked("D"), asked("E"))
    await stage.upload(stage.acme, "late-native", "r1", native, dialect="thread-protocol", from_seq=2, end="complete")
    kept: dict[str, str] = {}

    async def nothing_lost() -> bool:
        kept["thread"] = (await stage.acme.get(f"/v1/threads/{thread}")).text
        kept["letters"] = b"".join([letter.value or b"" for letter in await stage.letters()]).decode()
        return all(f"tail {n} " in kept["letters"] or f"tail {n} " in kept["thread"] for n in range(90))

    await stage.within_progress(nothing_lost, lambda: "the tail is neither stored nor a dead letter")
    await stage.is_whole(await stage.speak("after-the-tail"))
    turns = agent_turns(json.loads(kept["thread"]))
    assert text_of(turns[0]).startswith(text), "the tail has replaced the head"
    stored = (await stage.acme.get("/v1/threads/late-native")).text
    assert '"A"' in stored, "native turns are replaced by later ones"
    assert '"B"' in stored, "native turns are replaced by later ones"


ATTACKS: Final = (
    Attack("never begins", "100 MB of events that wait for their beginning", "fill the worker's memory", never_begins),
    Attack(
        "many begin", "20,000 runs that never end, and a restart among them", "fill the worker's memory", many_begin
    ),
    Attack("large results", "40 results of 850 KB", "lose one of them", kept_results),
    Attack("packed results", "600 MB of results that pack to nothing", "fill the worker's memory", packed_results),
    Attack("200 references", "200 references to one large object", "fill the gateway's memory", references),
    Attack("forks", "5,000 answers to one question", "fill the gateway's memory", forks),
    Attack("slow patterns", "6 MB on which a rule would backtrack", "hold the worker up", slow_pattern),
    Attack("results without a store", "25 results of 850 KB, inline", "lose what was taken", inline_results, INLINE),
    Attack("late tail", "the tail of a run that is forgotten", "replace its stored head", late_tail, FORGETS),
)
