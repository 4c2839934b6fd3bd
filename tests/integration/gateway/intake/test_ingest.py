"""Uploads to a real gateway in front of a real broker: what arrives, what is answered, what rubbish does."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.gateway.access.token_table import new_token
from pipeline.settings import Settings
from tests.support.gateways import ALL, Running, Tokens, client, running, sse, talk, words
from tests.support.topic_records import read_all
from tests.support.waiting import PATIENCE, until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import EVENTS
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import decode

RUN = "/v1/threads/chat-1/runs/r1/stream?dialect=vercel-ai"


async def envelopes(settings: Settings) -> list[dict[str, Any]]:
    return [decode(record.value) for record in await read_all(settings, EVENTS)]  # type: ignore[attr-defined]


async def post(http: httpx.AsyncClient, body: Any, query: str = "", **headers: str) -> httpx.Response:
    return await http.post(
        RUN + query, content=body, headers={name.replace("_", "-"): v for name, v in headers.items()}
    )


def problem(answer: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert (said["type"], said["status"]) == (f"/docs#{kind}", status)
    assert said["detail"]
    return dict(said)


async def events_come_to(settings: Settings, count: int) -> bool:
    """Whether so many are on the topic."""
    return sum(len(envelope["events"]) for envelope in await envelopes(settings)) == count


async def test_an_upload_is_published_as_it_comes(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    events, first_is_there = talk(20), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield sse(events[:5], done=False)
        await until(lambda: envelopes(gateway_settings))
        first_is_there.set()
        yield sse(events[5:])

    query = "&agent_name=Weather&model_name=m&provider_name=p&parent_run_id=r0&parent_thread_id=chat-0"
    answer = await post(http, body(), query, turnmill_request='{"messages": []}', turnmill_agent_id="weather")
    assert first_is_there.is_set(), "the beginning is on the broker while the rest is still to come"
    uuid, _ = thread_uuid("chat-1")
    report = answer.json()
    assert (answer.status_code, report.pop("records") > 1) == (200, True)
    assert report == {
        "thread_id": uuid,
        "run_id": "r1",
        "events": len(events),
        "next_seq": len(events),
        "end": "complete",
        "refused": 0,
        "refusals": [],
    }
    found = await envelopes(gateway_settings)
    assert [event for envelope in found for event in envelope["events"]] == events
    assert {envelope["agent_id"] for envelope in found} == {"weather"}
    assert (found[0]["thread_id"], found[-1]["end"]) == (uuid, "complete")
    assert found[0]["run"] == {
        "agent_name": "Weather",
        "model_name": "m",
        "provider_name": "p",
        "parent_run_id": "r0",
        "parent_thread_id": thread_uuid("chat-0")[0],
        "request": {"messages": []},
        "external_id": "chat-1",
    }


async def test_what_a_whole_body_took_is_unknown(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    """A file that is uploaded at once says nothing of the time at which a model spoke."""
    assert (await post(http, sse(talk(300)))).status_code == 200
    found = await envelopes(gateway_settings)
    assert len({envelope["ts"] + dt for envelope in found for dt in envelope.get("dt", [0])}) == 1
    (turn,) = assemble(DIALECTS["vercel-ai"], found)[0]
    assert turn["timings"] == [{"ttft_ms": None, "duration_ms": None}]


async def test_the_same_again_changes_nothing(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    events = talk(30)
    for _ in range(2):
        assert (await post(http, sse(events))).status_code == 200
    parts = [events[:7], events[7:20], events[20:]]
    seq = 0
    for number, part in enumerate(parts):
        end = "&end=open" if number < 2 else ""
        answer = await post(http, sse(part, done=False), f"&from_seq={seq}{end}")
        seq = answer.json()["next_seq"]
    assert seq == len(events)
    whole = [{"v": 1, "thread_id": thread_uuid("chat-1")[0], "run_id": "r1", "agent_id": "agent", "seq": 0, "ts": 1}]
    expected, _ = assemble(
        DIALECTS["vercel-ai"], [{**whole[0], "dialect": "vercel-ai", "events": events, "end": "complete"}]
    )
    found, refused = assemble(DIALECTS["vercel-ai"], await envelopes(gateway_settings))
    assert not refused
    assert [record["hash"] for record in found] == [record["hash"] for record in expected]
    assert found[-1]["status"] == "complete"


async def test_a_run_goes_all_the_way(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    worker = WorkerProcess(gateway_settings).start()
    try:
        await post(http, sse(talk(5)), "&agent_name=Weather")
        user = {"type": "user-turn", "user_turn": {"turn_type": "user", "parts": [{"content": "Hello?"}]}}
        await wait_until_stored(gateway_settings, 1, [worker])
        read = (await http.get("/v1/threads/chat-1?format=vercel-ai")).json()
        assert read["messages"][-1]["parts"][-1]["text"] == "word 0 word 1 word 2 word 3 word 4 "
        assert (await http.delete("/v1/threads/chat-1")).status_code == 200
        problem(await http.get("/v1/threads/chat-1"), 404, "unknown-thread")
        problem(await http.get("/v1/threads/chat-1/live"), 404, "unknown-thread")
        problem(await post(http, json.dumps(user).encode()), 409, "conflict")
    finally:
        worker.end()


async def test_a_body_that_breaks_off_closes_its_run(gateway: Running, gateway_settings: Settings) -> None:
    host, port = urlsplit(gateway.url).hostname, urlsplit(gateway.url).port
    _reader, writer = await asyncio.open_connection(host, port)
    part = sse(talk(50)[:20], done=False)
    writer.write(f"POST {RUN} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
    await writer.drain()
    await until(lambda: events_come_to(gateway_settings, 20))
    writer.transport.abort()

    async def ended() -> list[dict[str, Any]]:
        found = await envelopes(gateway_settings)
        return found if "end" in found[-1] else []

    found = await until(ended)
    assert sum(len(envelope["events"]) for envelope in found) == 20
    assert [envelope["end"] for envelope in found if "end" in envelope] == ["disconnected"]


@pytest.mark.parametrize("bound", [{"gateway_body_idle": 0.3}, {"run_timeout": 1.0}], ids=["still", "trickling"])
async def test_a_body_that_does_not_come_to_an_end_is_closed(
    gateway_settings: Settings, bound: dict[str, float]
) -> None:
    """One that stands still, and one of which a byte comes now and then."""
    settings = gateway_settings.model_copy(update=bound)
    async with running(settings) as gateway:
        host, port = urlsplit(gateway.url).hostname, urlsplit(gateway.url).port
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(f"POST {RUN} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        writer.write(chunk(sse(words(3), done=False)))
        answer = asyncio.create_task(reader.readuntil(b"}"))
        while not answer.done():
            await asyncio.sleep(0.1)
            if "run_timeout" in bound:
                writer.write(chunk(b":"))
        writer.close()
    head, _, body = (await answer).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    said = json.loads(body)
    assert (said["type"], said["events"], said["end"]) == ("/docs#too-slow", 3, "disconnected")
    assert (await envelopes(settings))[-1]["end"] == "disconnected"


def chunk(data: bytes) -> bytes:
    """One piece of a body whose length nobody knows yet."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_bodies_and_events_are_bounded(gateway_settings: Settings) -> None:
    settings = gateway_settings.model_copy(update={"gateway_body_bytes": 12_000_000})
    large = [{"type": "start"}, {"type": "data-x", "data": "x" * 10_000_000}, {"type": "finish"}]
    async with running(settings) as gateway, client(gateway.url) as http:
        said = problem(await post(http, sse(large)), 413, "too-large")
        assert (said["events"], said["refused"], said["end"]) == (2, 1, "complete")
        said = problem(await post(http, sse(words(200_000))), 413, "too-large")
        assert said["next_seq"] == said["events"] > 100_000, "what came before is there, and the run is open"
        assert said["end"] == "open"
        problem(await post(http, sse(large[1:2])), 413, "too-large")


@pytest.mark.parametrize(
    ("query", "body", "status", "kind"),
    [
        ("&dialect=morse", b"", 422, "invalid-parameters"),
        ("&from_seq=-1", b"", 422, "invalid-parameters"),
        ("&from_seq=x", b"", 422, "invalid-parameters"),
        ("&end=perhaps", b"", 422, "invalid-parameters"),
        ("&request={bad", sse(talk(1)), 400, "bad-request"),
        ("&info=first", b'{"agent_id": 5}\n{"type":"finish"}', 400, "bad-request"),
        ("", b"", 422, "unreadable-stream"),
        ("", b"rubbish", 422, "unreadable-stream"),
        ("", b"data: {\n\ndata: }\n\n", 422, "unreadable-stream"),
        ("", b"\x00\xff\xfe" * 100, 422, "unreadable-stream"),
        ("", b'{"event_kind": "part_start"}', 422, "unreadable-stream"),
        ("", b'{"type":"x","d":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 422, "unreadable-stream"),
    ],
)
async def test_what_can_not_be_published_is_told(
    http: httpx.AsyncClient, gateway_settings: Settings, query: str, body: bytes, status: int, kind: str
) -> None:
    target = RUN.replace("dialect=vercel-ai", "") + query if "dialect" in query else RUN + query
    problem(await http.post(target, content=body), status, kind)
    assert await envelopes(gateway_settings) == []


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"Content-Encoding": "gzip"}, "unsupported-media-type"),
        ({"Content-Encoding": "br"}, "unsupported-media-type"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, "unsupported-media-type"),
        ({"Content-Type": "image/png"}, "unsupported-media-type"),
    ],
)
async def test_encoded_bodies_are_refused(http: httpx.AsyncClient, headers: dict[str, str], kind: str) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    problem(await http.post(RUN, content=bomb, headers=headers), 415, kind)


async def test_headers_are_bounded_in_size_and_in_time(gateway_settings: Settings) -> None:
    settings = gateway_settings.model_copy(update={"gateway_header_seconds": 0.5, "gateway_connections": 3})
    async with running(settings) as gateway:
        async with client(gateway.url) as http:
            for size in (10_000, 100_000):
                problem(await http.get("/v1/threads", headers={"X-Large": "x" * size}), 431, "headers-too-large")
        host, port = urlsplit(gateway.url).hostname, urlsplit(gateway.url).port
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: loc")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), PATIENCE)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"RUBBISH\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"/docs#bad-request" in answer
        waiting = [await asyncio.open_connection(host, port) for _ in range(3)]
        reader, writer = await asyncio.open_connection(host, port)
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After" in answer
        for _, open_one in waiting:
            open_one.close()


async def test_without_a_broker_an_upload_is_safe_on_disk(gateway_settings: Settings) -> None:
    away = gateway_settings.model_copy(update={"brokers": "127.0.0.1:1"})
    async with running(away) as gateway, client(gateway.url) as http:
        answer = await post(http, sse(talk(5)))
        assert answer.json()["end"] == "complete"
    async with running(gateway_settings) as gateway, client(gateway.url) as http:
        assert (await post(http, sse(talk(2)), "&agent_id=x")).status_code == 200
        await until(lambda: events_come_to(gateway_settings, len(talk(5)) + len(talk(2))))


async def test_a_token_has_so_many_requests(gateway_settings: Settings) -> None:
    tokens = Tokens()
    changes = {"gateway_rate": 0.5, "gateway_tokens": SecretStr(tokens.setting)}
    async with running(gateway_settings.model_copy(update=changes)) as gateway:
        async with client(gateway.url, tokens.acme) as http:
            answers = [await http.get("/v1/threads") for _ in range(3)]
        said = problem(answers[-1], 429, "rate-limited")
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 2, said
        async with client(gateway.url, tokens.globex) as http:
            assert (await http.get("/v1/threads")).status_code == 200


async def test_the_requests_of_another_tenant_are_not_counted(gateway_settings: Settings) -> None:
    """Found by the review: tokens of two tenants that have one name shared their limits."""
    made = {tenant: new_token("worker", ALL, tenant) for tenant in ("acme", "globex")}
    setting = "\n".join(line.model_dump_json() for _, line in made.values())
    for limits in ({"gateway_rate": 0.01}, {"gateway_caller_requests": 1}):
        changes = {**limits, "gateway_tokens": SecretStr(setting)}
        async with (
            running(gateway_settings.model_copy(update=changes)) as gateway,
            client(gateway.url, made["globex"][0]) as evil,
            client(gateway.url, made["acme"][0]) as http,
            evil.stream("GET", "/v1/threads/chat-1/live?wait=true") as answer,
        ):
            assert answer.status_code == 200
            problem(await evil.get("/v1/threads"), 429, "rate-limited")
            assert (await http.get("/v1/threads")).status_code == 200


async def test_the_span_of_the_caller_goes_with_the_run(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    span = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert (await post(http, sse(talk(3)), traceparent=span)).status_code == 200
    wrong = RUN.replace("chat-1", "chat-2")
    assert (await http.post(wrong, content=sse(talk(3)), headers={"traceparent": "x" * 3000})).status_code == 200
    found = {
        envelope["thread_id"]: envelope["run"] for envelope in await envelopes(gateway_settings) if "run" in envelope
    }
    assert found[thread_uuid("chat-1")[0]]["traceparent"] == span
    assert "traceparent" not in found[thread_uuid("chat-2")[0]]


async def test_a_token_has_so_many_requests_at_once(gateway_settings: Settings, tokens: Tokens) -> None:
    """Found by the review: silent uploads and live streams of one token could take all connections of the gateway."""
    bounded = {"gateway_tokens": SecretStr(tokens.setting), "gateway_caller_requests": 2}
    async with (
        running(gateway_settings.model_copy(update=bounded)) as gateway,
        client(gateway.url, tokens.acme) as http,
        client(gateway.url, tokens.globex) as other,
    ):
        streams = [http.stream("GET", "/v1/threads/chat-1/live?wait=true") for _ in range(2)]
        async with streams[0]:
            async with streams[1]:
                problem(await http.get("/v1/threads"), 429, "rate-limited")
                assert (await other.get("/v1/threads")).status_code == 200

            async def has_room() -> bool:
                return (await http.get("/v1/threads")).status_code == 200

            await until(has_room)


async def test_the_first_events_tell_the_dialect(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    path = RUN.replace("vercel-ai", "auto")
    answer = await http.post(path, content=sse(talk(3)))
    assert (answer.status_code, answer.json()["dialect"]) == (200, "vercel-ai")
    assert {envelope["dialect"] for envelope in await envelopes(gateway_settings)} == {"vercel-ai"}
    answer = await http.post(path.replace("r1", "r2"), content='{"type":"start"}\n')
    assert (
        "it could be pi-proxy, vercel-ai; name it with `dialect`" in problem(answer, 422, "unreadable-stream")["detail"]
    )
    answer = await http.post(path.replace("r1", "r3"), content="")
    assert "the body has no event" in problem(answer, 422, "unreadable-stream")["detail"]


async def test_a_wrong_dialect_is_refused_or_told(http: httpx.AsyncClient) -> None:
    url = "/v1/threads/chat/runs/wrong/stream?dialect=anthropic&agent_id=a"
    answer = await http.post(url, content=sse([{"type": "data-note", "data": 1}, *talk(3)]))
    assert (answer.status_code, answer.json()["type"]) == (422, "/docs#unreadable-stream")
    assert answer.json()["detail"] == "no event is known to anthropic: it looks like vercel-ai"

    async def slowly() -> AsyncIterator[bytes]:
        for event in talk(3):
            yield sse([event])
            await asyncio.sleep(0.05)

    answer = await http.post(url, content=slowly())
    assert answer.status_code == 200
    assert answer.json()["warning"].startswith("no event of the body is known to anthropic: it looks like vercel-ai;")
    right = await http.post(url.replace("wrong", "right").replace("anthropic", "vercel-ai"), content=sse(talk(3)))
    assert "warning" not in right.json()
    only_data = await http.post(url.replace("wrong", "data"), content=sse([{"type": "data-sys-metrics", "data": {}}]))
    assert only_data.status_code == 200
    assert "warning" not in only_data.json()
