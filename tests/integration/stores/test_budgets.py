"""What is used of budgets, as the store has it; and that several workers give one notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.budgets import parse
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.budgeting import states
from pipeline.stores.sql import ThreadStore
from pipeline.worker.budget_watch import BudgetWatch
from turnmill import clock

RECORDS_AT = 1_768_903_200_000  # 2026-01-20T10:00:00Z, about when the records are of
BUDGETS = """[{"name": "all", "tokens": 40, "per": "hour"},
  {"name": "acme", "tenant": "acme", "tokens": 100, "per": "day"},
  {"name": "nobody", "tenant": "", "tokens": 1000, "per": "month"},
  {"name": "agent", "agent": "a2", "model": "model-1", "tokens": 100, "per": "day"},
  {"name": "money", "tenant": "acme", "usd": 0.002, "per": "day"}]"""


async def test_what_is_used(store: ThreadStore, record: Callable[..., Any], monkeypatch: Any) -> None:
    await store.write(
        [
            record("one", tokens=10),
            record("two", tokens=20, tenant="acme"),
            record("three", tokens=5, tenant="acme", agent_id="a2"),
        ]
    )
    found = await states(store, parse(BUDGETS), RECORDS_AT + 60_000)
    used = {one.budget.name: one.used for one in found}
    assert used == {"all": 38, "acme": 27, "nobody": 11, "agent": 6, "money": used["money"]}
    assert used["money"] == 2_000_000
    later = await states(store, parse(BUDGETS), RECORDS_AT + 40 * 86_400_000)
    assert [one.used for one in later] == [0] * 5

    async def opened() -> ThreadStore:
        return store

    monkeypatch.setattr(clock.time, "time_ns", lambda: (RECORDS_AT + 60_000) * 1_000_000)
    workers = [BudgetWatch(Settings(budgets=BUDGETS), opened, Metrics()) for _ in range(2)]
    for worker in (*workers, *workers):
        await worker._step()
    notices = await store.due_notices(RECORDS_AT + 60_000)
    reached = sorted((one["data"]["budget"], one["data"]["level"]) for one in notices)
    assert reached == [("all", 80), ("money", 80), ("money", 100)]
    await store.notices_sent([one["id"] for one in notices], RECORDS_AT + 60_000)
    await BudgetWatch(Settings(budgets=BUDGETS), opened, Metrics())._step()  # one that has just started
    assert await store.due_notices(RECORDS_AT + 10**9) == []
