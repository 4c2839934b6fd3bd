"""Which tools the newest turns call, which fail, and how long they take."""

from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import steps
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.steps import ToolUse, thread_steps, tools_called
from pipeline.stores.turns import write_turns
from tests.support.team import timed
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.identity import thread_uuid

NOW = 1_790_000_000_000
CALLS = (("search", "success", 100), ("refund", "error", 400), ("search", "success", 300), ("refund", "success", 200))


async def test_tools_that_fail_most_are_first(store: ThreadStore) -> None:
    runs: list[Any] = [timed(f"chat{n}", NOW + n, *call, n) for n, call in enumerate(CALLS)]
    await write_turns(store, runs)
    used = await tools_called(store, ListQuery())
    assert used.tools == [ToolUse("refund", 2, 1, 0, 400), ToolUse("search", 2, 0, 0, 300)]
    assert used.turns == len(CALLS)
    assert (await tools_called(store, ListQuery(agent="agent1"))).tools == [ToolUse("refund", 1, 1, 0, 400)]


async def test_of_large_turns_the_newest_are_read(store: ThreadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "PIECE", 1)
    monkeypatch.setattr(steps, "READ_BYTES", 1)
    runs: list[Any] = [timed(f"chat{n}", NOW + n, *call, n) for n, call in enumerate(CALLS)]
    await write_turns(store, runs)
    assert await tools_called(store, ListQuery()) == steps.ToolsUsed([ToolUse("refund", 1, 0, 0, 200)], 1)


ASKED: list[Any] = [{"role": "user", "content": "Will it rain?"}]


def captured(number: int, messages: list[Any], *content: Any, chat: str = "captured") -> list[TurnRecord]:
    """A program's call of a model, a run of its own: it asks 10 s after the one before, and is answered after 2 s."""
    ts = NOW + number * 10_000
    message = {"id": f"m{number}", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    envelope = {"v": 1, "thread_id": thread_uuid(chat)[0], "run_id": f"run{number}", "agent_id": "a", "end": "complete"}
    events = [{**message, "content": list(content), "usage": {"input_tokens": 1, "output_tokens": 1}}]
    asked = {"request": {"model": "m", "messages": messages}, "started_at": ts}
    envelope |= {"dialect": "anthropic", "seq": 0, "ts": ts + 2_000, "events": events, "run": asked}
    records, refused = assemble(DIALECTS["anthropic"], [envelope])
    assert not refused
    return records


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"id-{name}", "name": name, "input": {}}


def result(name: str, *, failed: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"id-{name}", "content": "so", "is_error": failed}


def said(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


def program() -> list[list[TurnRecord]]:
    """Four calls of a model: it calls a tool, then two at once of which one fails, and a tool that nothing answers."""
    first = [*ASKED, said("assistant", call("look")), said("user", result("look"))]
    both = [said("assistant", call("rain"), call("wind")), said("user", result("rain"), result("wind", failed=True))]
    return [
        captured(0, ASKED, call("look")),
        captured(1, first, call("rain"), call("wind")),
        captured(2, [*first, *both], call("wait")),
        captured(3, ASKED, {"type": "text", "text": "No."}, chat="another"),
    ]


@pytest.mark.parametrize("piece", [1, 200])
async def test_a_call_is_answered_by_a_later_turn(
    store: ThreadStore, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(steps, "PIECE", piece)
    for run in program():
        await write_turns(store, run)
    used = await tools_called(store, ListQuery())
    assert used.tools == [
        ToolUse("wind", 1, 1, 0, None),  # of two that a response calls, it is not known when each has answered
        ToolUse("look", 1, 0, 0, 8_000),
        ToolUse("rain", 1, 0, 0, None),
        ToolUse("wait", 1, 0, 1, None),
    ]
    found = await thread_steps(store, ThreadKey(thread_uuid("captured")[0]))
    tools = [step for some in found.values() for step in some if step["kind"] == "tool"]
    assert [(step["name"], step["status"], step["end"]) for step in tools] == [
        ("look", "success", NOW + 10_000),
        ("rain", "success", None),
        ("wind", "error", None),
        ("wait", "unanswered", None),
    ]


async def test_a_call_whose_thread_is_another_is_not_answered(store: ThreadStore) -> None:
    first = [*ASKED, said("assistant", call("look")), said("user", result("look"))]
    await write_turns(store, [*captured(0, ASKED, call("look")), *captured(1, first, chat="another")])
    assert (await tools_called(store, ListQuery())).tools == [ToolUse("look", 1, 0, 1, None)]


async def test_a_call_is_answered_once_though_its_id_comes_again(store: ThreadStore) -> None:
    again = [*ASKED, said("assistant", call("look")), *ASKED]
    answered = [*again, said("assistant", call("look")), said("user", result("look"))]
    runs = [captured(0, ASKED, call("look")), captured(1, again, call("look")), captured(2, answered)]
    await write_turns(store, [record for run in runs for record in run])
    assert (await tools_called(store, ListQuery())).tools == [ToolUse("look", 2, 0, 1, 8_000)]
