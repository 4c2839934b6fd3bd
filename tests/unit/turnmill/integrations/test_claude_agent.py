"""Runs of the Claude Agent SDK, with stand-ins of its shape; the SDK itself: tests/sdks/check_recording.py."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest

import turnmill
from tests.support.spools import away
from tests.unit.turnmill.integrations.conftest import Heard
from turnmill.capture import runtime

Runs = Callable[[], list[Heard]]


@dataclass
class SystemMessage:
    subtype: str
    data: dict[str, Any]


@dataclass
class TextBlock:
    text: str


@dataclass
class AssistantMessage:
    content: list[TextBlock]
    message_id: str
    model: str = "m"
    usage: Any = None
    stop_reason: str | None = None
    parent_tool_use_id: str | None = None


@dataclass
class ResultMessage:
    subtype: str = "success"
    session_id: str = "s-1"
    is_error: bool = False
    model_usage: Any = None
    total_cost_usd: float | None = None
    usage: dict[str, int] = field(default_factory=lambda: {"input_tokens": 3, "output_tokens": 5})


START = SystemMessage("init", {"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"})


def answered(text: str, **result: Any) -> list[Any]:
    return [START, AssistantMessage([TextBlock(text)], f"msg-{text}"), ResultMessage(**result)]


class Client:
    """As ClaudeSDKClient: what is asked is answered by what it was made of, in turns."""

    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)
        self.asked: list[Any] = []
        self.connected = False

    async def connect(self, prompt: Any = None) -> None:
        self.connected = True

    async def query(self, prompt: Any, session_id: str = "default") -> None:
        self.asked += [prompt] if isinstance(prompt, str) else [line async for line in prompt]

    async def receive_messages(self) -> AsyncIterator[Any]:
        while self.turns:
            for message in self.turns.pop(0):
                if isinstance(message, Exception):
                    raise message
                yield message

    async def receive_response(self) -> AsyncIterator[Any]:
        async for message in self.receive_messages():
            yield message
            if isinstance(message, ResultMessage):
                return

    async def disconnect(self) -> None:
        self.connected = False

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()


async def lines() -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": "And Rome?"}}


async def test_a_clients_conversation(heard: Runs) -> None:
    """Each prompt is a run, in the session's thread; what the client hands out is the same."""
    made = Client(answered("Rain."), answered("Sun."), answered("Hm.", is_error=True, subtype="error_during_execution"))
    client = turnmill.claude_client(made)
    assert client is made
    async with client:
        await client.query("Paris?")
        seen = [message async for message in client.receive_response()]
        await client.query(prompt=lines(), session_id="default")
        [_ async for _ in client.receive_response()]
        await client.query("Oslo?")
        [_ async for _ in client.receive_response()]
    assert not client.connected
    assert (seen[0] is START, len(seen)) == (True, 3)
    assert client.asked == ["Paris?", {"type": "user", "message": {"role": "user", "content": "And Rome?"}}, "Oslo?"]
    paris, rome, oslo = heard()
    assert {run.thread for run in (paris, rome, oslo)} == {"s-1"}
    assert paris.first["agent_id"] == "claude-code"
    assert paris.said() == [[("user-prompt", "Paris?")], [("text", "Rain.")]]
    assert rome.said() == [[("user-prompt", "And Rome?")], [("text", "Sun.")]]
    assert [run.end for run in (paris, rome, oslo)] == ["complete", "complete", "error"]
    assert oslo.turns()[1]["completion_status"] == "interrupted"


async def test_a_run_begins_with_what_the_program_has_told_before(heard: Runs) -> None:
    """Its sums go on from prompt to prompt, until it ends."""
    used = {"m": {"inputTokens": 3, "costUSD": 0.25}}
    made = Client(*(answered("Sun.", total_cost_usd=cost, model_usage=used) for cost in (0.25, 0.5, 0.1)))
    client = turnmill.claude_client(made)
    for prompts in (2, 1):
        async with client:
            for _ in range(prompts):
                await client.query("Paris?")
                [_ async for _ in client.receive_response()]
    told = [[event for event in run.events if event["type"] == "turnmill.sums"] for run in heard()]
    assert told == [[], [{"type": "turnmill.sums", "total_cost_usd": 0.25, "modelUsage": used}], []]


async def test_a_client_that_fails_or_is_left(heard: Runs) -> None:
    """Who stops listening may go on; a word in between belongs to the run that is open."""
    failing = turnmill.claude_client(Client([START, ValueError("process")]), thread_id="failing", agent_id="coder")
    async with failing as client:
        await client.query("Paris?")
        with pytest.raises(ValueError, match="process"):
            [_ async for _ in client.receive_messages()]
    left = turnmill.claude_client(Client(answered("Rain.")[:2]), thread_id="left", tenant="acme")
    await left.connect("Paris?")
    async with aclosing(left.receive_messages()) as messages:  # type: ignore[type-var]
        await anext(messages)
    await left.query("Or Rome?")
    await left.disconnect()
    failed, aborted = heard()
    assert (failed.thread, failed.first["agent_id"], failed.end) == ("failing", "coder", "error")
    assert (aborted.thread, aborted.first["tenant"], aborted.end) == ("left", "acme", "aborted")
    assert [event.get("message", {}).get("content") for event in aborted.events] == ["Paris?", None, "Or Rome?"]


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the stand-in's `query` was given."""
    module, given = ModuleType("claude_agent_sdk"), []

    async def query(*, prompt: Any, options: Any = None) -> AsyncIterator[Any]:
        given.append((prompt, options))
        for message in answered("Rain."):
            yield message
            if options == "fail":
                raise ValueError("process")
            if options == "wait":
                await asyncio.sleep(60)

    module.query = query  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", module)
    return given


async def test_a_query_gets_its_prompt_unchanged_where_no_commands_are_received(
    heard: Runs, sdk: list[Any], tmp_path: Path
) -> None:
    runtime.restart(away(tmp_path, control=False))
    [_ async for _ in turnmill.claude_query(prompt="Paris?", thread_id="whole")]
    assert sdk == [("Paris?", None)]


async def test_a_query(heard: Runs, sdk: list[Any]) -> None:
    whole = turnmill.claude_query(prompt="Paris?", options="options", thread_id="whole")
    assert [type(message).__name__ async for message in whole] == ["SystemMessage", "AssistantMessage", "ResultMessage"]
    [(prompt, options)] = sdk
    assert options == "options"
    assert [line["message"] async for line in prompt] == [{"role": "user", "content": "Paris?"}]
    with pytest.raises(ValueError, match="process"):
        [_ async for _ in turnmill.claude_query(prompt="Paris?", options="fail", thread_id="failed")]
    stopped = turnmill.claude_query(prompt="Paris?", thread_id="stopped")
    await anext(stopped)
    await stopped.aclose()

    async def waits() -> None:
        async for _ in turnmill.claude_query(prompt="Paris?", options="wait", thread_id="cancelled"):
            pass

    task = asyncio.create_task(waits())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    runs = {run.thread: run for run in heard()}
    assert {name: run.end for name, run in runs.items()} == {
        "whole": "complete",
        "failed": "error",
        "stopped": "aborted",
        "cancelled": "aborted",
    }
    assert runs["whole"].said() == [[("user-prompt", "Paris?")], [("text", "Rain.")]]
