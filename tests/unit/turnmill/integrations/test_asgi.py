"""The middleware, message by message: what the client gets is untouched, what is published is the stream."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from tests.support.spools import away, spooled
from turnmill.identity import thread_uuid
from turnmill.integrations.asgi import PublishStreams
from turnmill.integrations.stream_request import REQUEST_BYTES, RunIdentity, StreamRequest
from turnmill.publish.publisher import Publisher

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Steps = Callable[[Receive, Send], Awaitable[None]]

START = {"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", b"text/event-stream; charset=x")]}
EVENTS = [{"type": "start"}, {"type": "text-delta", "id": "t", "delta": "Hé"}, {"type": "finish"}]
CHUNKS = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode() for event in EVENTS] + [b"data: [DONE]\n\n"]
CHAT = {"id": "chat-7", "messages": [{"role": "user", "parts": [{"type": "text", "text": "Hello?"}]}]}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.0)


def body(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def client(received: Iterable[Message]) -> tuple[Receive, Send, list[Message]]:
    """What a server gives to an application: its `receive`, its `send`, and the list of what was sent so far."""
    incoming, sent = iter(received), []

    async def receive() -> Message:
        return next(incoming)

    async def send(message: Message) -> None:
        sent.append(message)

    return receive, send, sent


async def call(
    home: Path, steps: Steps, *, received: list[Message] | None = None, headers: dict[str, str] | None = None, **options
) -> tuple[list[Message], list[dict[str, Any]]]:
    """One request -> (what the client was sent, what was published)."""
    settings = away(home)
    receive, send, sent = client(received if received is not None else [request(CHAT)])

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await steps(receive, send)

    pairs = {"content-type": "application/json", **(headers or {})}.items()
    scope = {"type": "http", "path": "/chat", "headers": [(k.encode(), v.encode()) for k, v in pairs]}
    async with Publisher(settings) as publisher:
        middleware = PublishStreams(app, publisher=publisher, agent_id="weather", **options)
        try:
            await middleware(scope, receive, send)
        except (RuntimeError, OSError, asyncio.CancelledError) as error:
            sent.append({"raised": error})
    return sent, spooled(settings)


def request(value: Any) -> Message:
    return {"type": "http.request", "body": json.dumps(value).encode(), "more_body": False}


def events(records: list[dict[str, Any]]) -> list[Any]:
    return [event for record in records for event in record["events"]]


async def whole(receive: Any, send: Any) -> None:
    await receive()
    await send(START)
    for chunk in CHUNKS:
        await send(body(chunk))
    await send(body(b"", more=False))


async def test_a_stream_passes_untouched_and_is_published(tmp_path: Path) -> None:
    sent, records = await call(tmp_path, whole)
    assert sent == [START, *map(body, CHUNKS), body(b"", more=False)]
    assert sent[0] is START
    assert events(records) == EVENTS
    assert {(r["thread_id"], r["agent_id"], r["dialect"]) for r in records} == {
        (thread_uuid("chat-7")[0], "weather", "vercel-ai")
    }
    assert records[0]["run"] == {"request": CHAT, "external_id": "chat-7"}
    assert records[-1]["end"] == "complete"


async def test_events_are_found_wherever_chunks_are_cut(tmp_path: Path) -> None:
    stream = b"".join(CHUNKS)

    async def bytewise(receive: Any, send: Any) -> None:
        await send(START)
        for place in range(len(stream)):
            await send(body(stream[place : place + 1], more=place + 1 < len(stream)))

    sent, records = await call(tmp_path, bytewise)
    assert b"".join(message.get("body", b"") for message in sent) == stream
    assert (events(records), records[-1]["end"]) == (EVENTS, "complete")


async def ends(home: Path, steps: Steps, **options: Any) -> tuple[str, list[Message]]:
    sent, records = await call(home, steps, **options)
    assert events(records) == EVENTS[:2]
    return records[-1]["end"], sent


async def test_how_a_stream_breaks_off_is_how_its_run_ends(tmp_path: Path) -> None:
    async def begun(receive: Any, send: Any) -> None:
        await receive()
        await send(START)
        await send(body(CHUNKS[0]))
        await send(body(CHUNKS[1]))

    async def disconnected(receive: Any, send: Any) -> None:
        await begun(receive, send)
        assert (await receive())["type"] == "http.disconnect"

    async def failed(receive: Any, send: Any) -> None:
        await begun(receive, send)
        raise RuntimeError("model")

    async def cancelled(receive: Any, send: Any) -> None:
        await begun(receive, send)
        raise asyncio.CancelledError

    assert (await ends(tmp_path / "1", begun))[0] == "aborted"
    gone = [request(CHAT), {"type": "http.disconnect"}]
    assert (await ends(tmp_path / "2", disconnected, received=gone))[0] == "disconnected"
    end, sent = await ends(tmp_path / "3", failed)
    assert (end, str(sent[-1]["raised"])) == ("error", "model")
    end, sent = await ends(tmp_path / "4", cancelled)
    assert (end, type(sent[-1]["raised"])) == ("aborted", asyncio.CancelledError)


async def test_a_client_that_is_gone_is_told_by_the_server_as_an_error(tmp_path: Path) -> None:
    settings = away(tmp_path)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(body(CHUNKS[0]))

    async def send(message: Message) -> None:
        if "body" in message:
            raise OSError("gone")

    async with Publisher(settings) as publisher:
        with pytest.raises(OSError, match="gone"):
            await PublishStreams(app, publisher=publisher)({"type": "http", "headers": []}, None, send)  # type: ignore[arg-type]
    records = spooled(settings)
    assert (events(records), records[-1]["end"]) == (EVENTS[:1], "disconnected")


@pytest.mark.parametrize(
    "headers",
    [
        [(b"content-type", b"application/json")],
        [],
        [(b"content-type", b"text/event-stream"), (b"Content-Encoding", b"gzip")],
    ],
)
async def test_other_responses_are_let_be(tmp_path: Path, headers: list[tuple[bytes, bytes]]) -> None:
    async def plain(receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send(body(CHUNKS[0], more=False))

    sent, records = await call(tmp_path, plain)
    assert (len(sent), records) == (2, [])


async def test_who_speaks_is_the_applications_to_say(tmp_path: Path) -> None:
    def identify(request: StreamRequest) -> RunIdentity | None:
        assert request.scope["path"] == "/chat"
        user = request.headers["x-user"]
        if user == "nobody":
            return None
        return RunIdentity(
            f"{user}/{request.body['id']}", run_id="r", agent_id="other", tenant="acme", info={"model_name": "m"}
        )

    _, records = await call(tmp_path / "1", whole, headers={"X-User": "ann"}, identify=identify)
    assert (records[0]["thread_id"], records[0]["run_id"]) == (thread_uuid("ann/chat-7", "acme")[0], "r")
    assert (records[0]["agent_id"], records[0]["tenant"], records[0]["run"]["model_name"]) == ("other", "acme", "m")
    _, records = await call(tmp_path / "2", whole, headers={"X-User": "nobody"}, identify=identify)
    assert records == []


@pytest.mark.parametrize(
    ("received", "headers", "thread"),
    [
        ([request({"threadId": "t"})], {}, "t"),
        ([request(CHAT)], {"X-Thread-Id": "from the header"}, "from the header"),
        ([request([1])], {}, None),
        ([{"type": "http.request", "body": b"no JSON", "more_body": False}], {}, None),
        ([request(CHAT)], {"Content-Type": "text/plain"}, None),
    ],
)
async def test_where_the_thread_comes_from(tmp_path, received, headers, thread) -> None:
    headers = {name.lower(): value for name, value in headers.items()}
    _, records = await call(tmp_path, whole, received=received, headers=headers)
    assert records[0].get("run", {}).get("external_id") == thread
    assert len(records[0]["thread_id"]) == 36


async def test_whatever_goes_wrong_with_publishing_the_client_has_its_stream(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: StreamRequest) -> RunIdentity:
        raise KeyError("x-user")

    sent, records = await call(tmp_path / "1", whole, identify=fail)
    assert (len(sent), records) == (6, [])
    assert "/chat: the stream is not published" in caplog.text

    async def rubbish(receive: Any, send: Any) -> None:
        await send(START)
        await send(body(b"data: {nonsense\n\n" + CHUNKS[0]))
        await send(body(b"", more=False))

    sent, records = await call(tmp_path / "2", rubbish)
    assert (len(sent), events(records), records[-1]["end"]) == (3, EVENTS[:1], "complete")
    assert "an event was not published: undecodable: line 1" in caplog.text

    closed = Publisher(away(tmp_path / "3"))
    sent = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return request(CHAT)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await whole(receive, send)

    await PublishStreams(app, publisher=closed)({"type": "http", "headers": [], "path": "/c"}, receive, send)
    assert len(sent) == 6
    assert "/c: the rest of the stream is not published" in caplog.text


async def test_long_conversations_are_cut_to_what_was_said_last(tmp_path: Path) -> None:
    old = [{"role": role, "parts": [{"type": "text", "text": "x" * 10_000}]} for role in ("user", "assistant") * 20]
    _, records = await call(tmp_path / "1", whole, received=[request({**CHAT, "messages": old + CHAT["messages"]})])
    assert records[0]["run"]["request"]["messages"] == [old[-1], *CHAT["messages"]]
    huge = {**CHAT, "messages": [{"role": "user", "text": "x" * REQUEST_BYTES}]}
    _, records = await call(tmp_path / "2", whole, received=[request(huge)])
    assert "request" not in records[0].get("run", {})
    parts = json.dumps(CHAT).encode()
    pieces = [
        {"type": "http.request", "body": parts[:9], "more_body": True},
        {"type": "http.request", "body": parts[9:]},
    ]

    async def both(receive: Any, send: Any) -> None:
        await receive()
        await whole(receive, send)

    _, records = await call(tmp_path / "3", both, received=pieces)
    assert records[0]["run"]["request"] == CHAT


async def test_other_protocols_pass(tmp_path: Path) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    middleware = PublishStreams(app, publisher=Publisher(away(tmp_path)))
    await middleware({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    await middleware({"type": "websocket"}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan", "websocket"]


async def test_without_a_publisher_it_has_one_for_the_lifespan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = away(tmp_path)
    monkeypatch.setattr("turnmill.environment.load_settings", lambda: settings)
    states = []
    receive, send, sent = client(repeat(request(CHAT)))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await whole(receive, send)
            return
        states.append("started")
        await middleware(
            {"type": "http", "path": "/", "headers": [(b"content-type", b"application/json")]}, receive, send
        )
        states.append("stopped")

    middleware = PublishStreams(app)
    await middleware({"type": "lifespan"}, receive, send)
    assert states == ["started", "stopped"]
    assert [message["body"] for message in sent if message.get("body")] == CHUNKS


@pytest.mark.parametrize("kinds", [["http", "http"], ["lifespan", "http", "http"]])
async def test_an_application_starts_and_answers_without_publishing(
    kinds: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong() -> None:
        raise ValueError("a setting is wrong")

    monkeypatch.setattr("turnmill.environment.load_settings", wrong)
    receive, send, sent = client(repeat(request(CHAT)))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await whole(receive, send)

    middleware = PublishStreams(app)
    for kind in kinds:
        await middleware({"type": kind, "path": "/", "headers": []}, receive, send)
    assert [message["body"] for message in sent if message.get("body")] == CHUNKS * 2
    said = [record.message for record in caplog.records]
    assert len(said) == len(kinds) - 1
    assert "give a publisher" in said[-1]
