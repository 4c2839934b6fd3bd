"""Which tools the newest turns call, which fail, and how long they take."""

from typing import Any

import pytest

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import steps
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.steps import ToolUse, tools_called
from pipeline.stores.turns import write_turns
from tests.support.team import timed

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
