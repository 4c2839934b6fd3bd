"""Runs of SDKs that are stopped from elsewhere, with stand-ins of the SDKs' shape: each in its own way, and says so.

The SDKs themselves: tests/sdks/check_stops.py.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

import turnmill
from tests.support.spools import away, spooled
from tests.support.waiting import until
from tests.unit.turnmill.integrations.conftest import Heard
from turnmill import Publisher, RunStopped
from turnmill.capture import runtime
from turnmill.clock import now_ms
from turnmill.control.receiver import Control
from turnmill.control.record import AFTER_TURN, EVENT, NOW, Command
from turnmill.integrations import claude_agent
from turnmill.integrations.asgi import PublishStreams
from turnmill.integrations.pydantic_ai import published_response
from turnmill.publish.run import PublishedRun

Runs = Callable[[], list[Heard]]


@pytest.fixture
def begun(heard: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[PublishedRun]:
    """The runs that began, which are told by the test instead of by the topic."""
    found: list[PublishedRun] = []
    monkeypatch.setattr(Control, "begun", lambda _, run: found.append(run))
    runtime.restart(away(tmp_path, control=True))
    return found


def command(mode: str = NOW) -> Command:
    now = now_ms()
    return Command("c1", "t", "r", None, "stop", mode, "ann", now, now + 60_000)


async def tell(begun: list[PublishedRun], mode: str = NOW) -> None:
    async def has_begun() -> bool:
        return bool(begun)

    await until(has_begun)
    begun[0].stopped.tell(command(mode))


def check(heard: Runs) -> None:
    [run] = heard()
    assert run.end == "aborted"
    assert '"turnmill.control"' in json.dumps(run.events)
    turn = run.turns()[-1]
    assert turn["interruption"]["reason"] == "user_cancelled"
    assert turn["meta:stopped_by"] == {"command_id": "c1", "by": "ann"}


@dataclass
class SystemMessage:
    subtype: str
    data: dict[str, Any]


@dataclass
class ResultMessage:
    subtype: str = "error_during_execution"
    session_id: str = "s-1"
    is_error: bool = True
    model_usage: Any = None
    usage: dict[str, int] = field(default_factory=dict)


START = SystemMessage("init", {"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"})


async def written() -> AsyncIterator[Any]:
    yield {"type": "user", "message": {"role": "user", "content": "Hello?"}}


@pytest.mark.parametrize("prompt", [lambda: "Hello?", written])
@pytest.mark.parametrize("answers", [True, False])
async def test_claude_query(
    answers: bool,  # noqa: FBT001  # whether its program ends its answer when it is interrupted
    prompt: Callable[[], Any],
    heard: Runs,
    begun: list[PublishedRun],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed, read = asyncio.Event(), list[dict[str, Any]]()

    async def query(*, prompt: AsyncIterator[Any]) -> AsyncIterator[Any]:
        try:
            yield START
            read.extend([line async for line in prompt])
            if not answers:
                await asyncio.Event().wait()
            yield ResultMessage()
            await asyncio.Event().wait()
        finally:
            closed.set()

    module = ModuleType("claude_agent_sdk")
    monkeypatch.setattr(module, "query", query, raising=False)
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", module)
    monkeypatch.setattr(claude_agent, "INTERRUPT_TIMEOUT", 0.05)
    telling = asyncio.create_task(tell(begun))
    with pytest.raises(RunStopped):
        async for _ in turnmill.claude_query(prompt=prompt()):
            pass
    await telling
    assert closed.is_set()
    assert [line["type"] for line in read] == ["user", "control_request"]
    assert read[0]["message"] == {"role": "user", "content": "Hello?"}
    assert read[1]["request"] == {"subtype": "interrupt"}
    check(heard)


async def test_a_claude_query_that_reads_no_more_ends_at_once(
    heard: Runs, begun: list[PublishedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def query(*, prompt: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async with aclosing(prompt):  # type: ignore[type-var]  # a generator
            await anext(prompt)
        yield START
        await asyncio.Event().wait()

    module = ModuleType("claude_agent_sdk")
    monkeypatch.setattr(module, "query", query, raising=False)
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", module)
    telling = asyncio.create_task(tell(begun))
    with pytest.raises(RunStopped):
        async for _ in turnmill.claude_query(prompt="Hello?"):
            pass
    await telling
    check(heard)


async def test_claude_client(heard: Runs, begun: list[PublishedRun]) -> None:
    class Client:
        def __init__(self) -> None:
            self.interrupted = asyncio.Event()

        async def connect(self) -> None: ...
        async def query(self, prompt: str) -> None: ...
        async def disconnect(self) -> None: ...
        async def interrupt(self) -> None:
            self.interrupted.set()

        async def receive_messages(self) -> AsyncIterator[Any]:
            yield START
            await self.interrupted.wait()
            yield ResultMessage()

    client = turnmill.claude_client(Client())
    await client.query("Hello?")
    telling = asyncio.create_task(tell(begun))
    assert [type(message).__name__ async for message in client.receive_messages()] == ["SystemMessage", "ResultMessage"]
    await telling
    check(heard)


@pytest.mark.parametrize("mode", [NOW, AFTER_TURN])
async def test_agents_sdk(heard: Runs, begun: list[PublishedRun], mode: str) -> None:
    class Result:
        def __init__(self, trace: Any) -> None:
            self.trace = trace
            self.cancelled = asyncio.Event()
            self.mode = ""

        def cancel(self, mode: str = "immediate") -> None:
            self.mode = mode
            self.cancelled.set()

    processor = turnmill.openai_agents_processor()
    trace = SimpleNamespace(trace_id="trace_1", group_id=None, metadata=None)
    result = processor.stoppable(Result(trace))
    processor.on_trace_start(trace)
    data = SimpleNamespace(type="agent", name="weather")
    agent = SimpleNamespace(trace_id="trace_1", span_id="span_1", parent_id=None, span_data=data, error=None)
    processor.on_span_start(agent)
    response = {"id": "resp", "status": "completed", "output": []}
    asked = [{"role": "user", "content": "Hello?"}]
    data = SimpleNamespace(type="response", input=asked, response=SimpleNamespace(model_dump=lambda **_: response))
    model = SimpleNamespace(trace_id="trace_1", span_id="span_2", parent_id="span_1", span_data=data, error=None)
    processor.on_span_start(model)
    processor.on_span_end(model)
    await tell(begun, mode)
    await result.cancelled.wait()
    assert result.mode == ("immediate" if mode == NOW else "after_turn")
    processor.on_span_end(agent)
    processor.on_trace_end(trace)
    check(heard)


def langchain(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A handler, with LangChain's own class as a stand-in."""
    callbacks = ModuleType("langchain_core.callbacks")
    monkeypatch.setattr(callbacks, "BaseCallbackHandler", object, raising=False)
    monkeypatch.setitem(sys.modules, "langchain_core", ModuleType("langchain_core"))
    monkeypatch.setitem(sys.modules, callbacks.__name__, callbacks)
    return turnmill.langchain_handler(thread_id="t")


async def test_langchain_that_has_no_next_step(
    heard: Runs, begun: list[PublishedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has said that it stops after the turn, so it ends as stopped."""
    handler, root, model = langchain(monkeypatch), uuid4(), uuid4()
    handler.on_chain_start(None, {}, run_id=root, name="chain", metadata={})
    asked = [{"type": "human", "content": "Rain?", "id": "h1"}]
    handler.on_chat_model_start({"name": "model"}, [asked], run_id=model, parent_run_id=root)
    await tell(begun, AFTER_TURN)
    handler.on_chain_end({}, run_id=root)
    check(heard)


@pytest.mark.parametrize("mode", [NOW, AFTER_TURN])
async def test_langchain(heard: Runs, begun: list[PublishedRun], monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Now: at the next token; after the turn: at the next call of a model."""
    handler, root, model = langchain(monkeypatch), uuid4(), uuid4()
    handler.on_chain_start(None, {}, run_id=root, name="chain", metadata={})
    asked = [{"type": "human", "content": "Rain?", "id": "h1"}]
    handler.on_chat_model_start({"name": "model"}, [asked], run_id=model, parent_run_id=root)
    await tell(begun, mode)
    piece = SimpleNamespace(message={"type": "AIMessageChunk", "content": "No", "id": "m1"})

    def goes_on() -> None:
        handler.on_llm_new_token("", chunk=piece, run_id=model, parent_run_id=root)
        assert mode == AFTER_TURN
        handler.on_chat_model_start({"name": "model"}, [asked], run_id=uuid4(), parent_run_id=root)

    with pytest.raises(RunStopped) as raised:
        goes_on()
    handler.on_llm_error(raised.value, run_id=model, parent_run_id=root)
    handler.on_chain_error(raised.value, run_id=root)
    check(heard)


@pytest.mark.parametrize("mode", [NOW, AFTER_TURN])
async def test_adk(heard: Runs, begun: list[PublishedRun], monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Now: at the next event; after the turn: at the next call of a model."""
    plugins = ModuleType("google.adk.plugins.base_plugin")
    monkeypatch.setattr(plugins, "BasePlugin", type("Base", (), {"__init__": lambda *_, **__: None}), raising=False)
    monkeypatch.setitem(sys.modules, plugins.__name__, plugins)
    monkeypatch.delitem(sys.modules, "turnmill.integrations.google_adk", raising=False)
    plugin = import_module("turnmill.integrations.google_adk").AdkPlugin()

    class Context(SimpleNamespace):
        """ADK's, of which weak references are made."""

    session = SimpleNamespace(id="s", app_name="app", user_id="u", events=[])
    context = Context(session=session, agent=SimpleNamespace(name="a"), invocation_id="i")
    said = {"id": "e1", "author": "a", "invocationId": "i", "partial": True, "content": {"parts": [{"text": "No"}]}}
    event = SimpleNamespace(is_final_response=lambda: False, partial=True, model_dump=lambda **_: said)
    await plugin.before_run_callback(invocation_context=context)
    await tell(begun, mode)
    if mode == NOW:
        with pytest.raises(RunStopped):
            await plugin.on_event_callback(invocation_context=context, event=event)
    else:
        await plugin.on_event_callback(invocation_context=context, event=event)
        with pytest.raises(RunStopped):
            await plugin.before_model_callback(callback_context=context, llm_request=None)
    await plugin.after_run_callback(invocation_context=context)
    check(heard)


def body(said: str) -> dict[str, Any]:
    return {"type": "http.response.body", "body": said.encode(), "more_body": True}


DELTA = 'data: {"type": "start"}\n\n'


async def of_asgi(publisher: Publisher) -> tuple[list[bytes], Callable[[], Awaitable[None]]]:
    """An application that never ends its stream, behind the middleware."""
    sent: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send(body(DELTA))
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    middleware = PublishStreams(app, publisher=publisher)
    scope = {"type": "http", "path": "/", "headers": [], "method": "POST", "query_string": b""}
    return sent, lambda: middleware(scope, receive, send)


async def of_response(publisher: Publisher) -> tuple[list[bytes], Callable[[], Awaitable[None]]]:
    """The same as a response of Starlette."""
    sent: list[bytes] = []

    async def endless() -> AsyncIterator[str]:
        yield DELTA
        await asyncio.Event().wait()

    response = published_response(
        publisher, SimpleNamespace(body_iterator=endless()), thread_id="t", agent_id="a", run_id="r"
    )

    async def read() -> None:
        sent.extend(
            [bytes(chunk, "utf-8") if isinstance(chunk, str) else chunk async for chunk in response.body_iterator]
        )

    return sent, read


@pytest.mark.parametrize("made", [of_asgi, of_response], ids=["asgi", "response"])
async def test_a_stream_of_a_web_application_ends_as_its_sdk_ends_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    found: list[PublishedRun] = []
    monkeypatch.setattr(Control, "begun", lambda _, run: found.append(run))
    settings = away(tmp_path, control=True)
    async with Publisher(settings, keep_after=0.1) as publisher:
        sent, serve = await made(publisher)
        telling = asyncio.create_task(tell(found))
        await serve()
        await telling
    assert [said for said in sent if said][-1] == b'data: {"type": "abort"}\n\ndata: [DONE]\n\n'
    records = spooled(settings)
    assert records[-1]["end"] == "aborted"
    assert [event["type"] for record in records for event in record["events"]] == ["start", EVENT]
