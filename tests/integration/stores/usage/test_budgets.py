"""What is used of budgets, as the store has it; and that several workers give one notice."""

import asyncio
from collections.abc import Callable
from typing import Any

from sqlalchemy import insert

from pipeline.observability.metrics import Metrics
from pipeline.policies.budgets import parse
from pipeline.settings import Settings
from pipeline.stores.database.expressions import MAX_INTEGER
from pipeline.stores.database.schema import deleted_usage
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.keeping.tenant_erasure import rows_left
from pipeline.stores.outbound.notices import due_notices, notices_sent
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.budgets import forget_deleted_usage, forget_windows, states
from pipeline.worker.sinks.watching import BudgetWatch
from topics.thread_key import ThreadKey
from turnmill import clock
from turnmill.identity import thread_uuid

RECORDS_AT = 1_768_903_200_000  # 2026-01-20T10:00:00Z, about when the records are of
BUDGETS = """[{"name": "all", "tokens": 40, "per": "hour"},
  {"name": "acme", "tenant": "acme", "tokens": 100, "per": "day"},
  {"name": "nobody", "tenant": "", "tokens": 1000, "per": "month"},
  {"name": "agent", "agent": "a2", "model": "model-1", "tokens": 100, "per": "day"},
  {"name": "money", "tenant": "acme", "usd": 0.002, "per": "day"}]"""


async def test_what_is_used(store: ThreadStore, record: Callable[..., Any], monkeypatch: Any) -> None:
    await write_turns(
        store,
        [
            record("one", tokens=10),
            record("two", tokens=20, tenant="acme"),
            record("three", tokens=5, tenant="acme", agent_id="a2"),
            record("four", tokens=50, tenant="acme", imported=True),
        ],
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
    workers = [BudgetWatch(Settings(budgets=BUDGETS).budget_list, opened, Metrics()) for _ in range(2)]
    for worker in (*workers, *workers):
        await worker._step()
    notices = await due_notices(store, RECORDS_AT + 60_000)
    reached = sorted((one["data"]["budget"], one["data"]["level"]) for one in notices)
    assert reached == [("all", 80), ("money", 80), ("money", 100)]
    await notices_sent(store, [one["id"] for one in notices], RECORDS_AT + 60_000)
    await BudgetWatch(Settings(budgets=BUDGETS).budget_list, opened, Metrics())._step()  # one that has just started
    assert await due_notices(store, RECORDS_AT + 10**9) == []


def in_scope(states_: Any) -> dict[str, tuple[int, dict[str | None, int]]]:
    return {one.budget.name: (one.used, dict(one.by_tenant)) for one in states_}


async def test_deleting_threads_gives_nothing_back(
    store: ThreadStore, record: Callable[..., Any], monkeypatch: Any
) -> None:
    now, budgets = RECORDS_AT + 60_000, parse(BUDGETS)
    monkeypatch.setattr(clock.time, "time_ns", lambda: now * 1_000_000)
    chats = [("one", None), ("two", "acme"), ("three", "acme"), ("four", "acme"), ("six", "acme")]
    await write_turns(
        store,
        [
            record("one", tokens=10),
            record("two", tokens=20, tenant="acme"),
            record("three", tokens=5, tenant="acme", agent_id="a2"),
            record("four", tokens=7, tenant="acme", seconds=-3 * 3600),
            record("six", tokens=50, tenant="acme", imported=True),
        ],
    )
    before = in_scope(await states(store, budgets, now))
    keys = [ThreadKey(thread_uuid(chat)[0], tenant) for chat, tenant in chats]
    gone = await asyncio.gather(*(delete_thread(store, key, budgets) for key in keys))
    assert gone == [True] * 5
    assert [await delete_thread(store, key, budgets) for key in keys] == [False] * 5
    assert (await count_rows(store)).turns == 0
    assert in_scope(await states(store, budgets, now)) == before
    await write_turns(store, [record("five", tokens=1, tenant="acme")])
    grown = in_scope(await states(store, budgets, now))
    assert grown["acme"][0] > before["acme"][0]
    assert (await rows_left(store, "acme"))["deleted_usage"] == 4  # all, acme, agent, money
    await forget_windows(store, RECORDS_AT // 3_600_000 * 3_600_000 + 3_600_000)
    assert (await rows_left(store, "acme"))["deleted_usage"] == 3, "the hour is over"
    await forget_deleted_usage(store, "acme")
    assert (await rows_left(store, "acme"))["deleted_usage"] == 0
    assert (await rows_left(store, ""))["deleted_usage"] == 1
    await forget_windows(store, now + 40 * 86_400_000)
    assert (await rows_left(store, ""))["deleted_usage"] == 0


async def test_no_claim_is_too_large_to_be_deleted(
    store: ThreadStore, record: Callable[..., Any], monkeypatch: Any
) -> None:
    now, budgets = RECORDS_AT + 60_000, parse(BUDGETS)
    monkeypatch.setattr(clock.time, "time_ns", lambda: now * 1_000_000)
    start, end = budgets[0].window(now)
    known = {"scope": budgets[0].scope, "start": start, "end": end, "tenant": "", "used": MAX_INTEGER - 5}
    async with store.writing() as connection:
        await connection.execute(insert(deleted_usage), [known])
    await write_turns(store, [record("one", tokens=10), record("two", tokens=10)])
    assert await delete_thread(store, ThreadKey(thread_uuid("one")[0]), budgets)
    [all_, *_] = await states(store, budgets, now)
    assert all_.used == MAX_INTEGER
    assert all_.exhausted(None)


async def test_a_budget_of_labels_also_counts_what_was_deleted(
    store: ThreadStore, record: Callable[..., Any], monkeypatch: Any
) -> None:
    now = RECORDS_AT + 60_000
    monkeypatch.setattr(clock.time, "time_ns", lambda: now * 1_000_000)
    budgets = parse(
        """[{"name": "ada", "user": "ada", "tokens": 100, "per": "day"},
        {"name": "beta", "project": "shop", "tag": "beta", "tokens": 100, "per": "day"}]"""
    )
    labels: list[dict[str, Any]] = [{"user": "ada"}, {"user": "bob", "project": "shop", "tags": ["beta", "eu"]}, {}]
    records = [record(f"chat{n}", tokens=10 * (n + 1)) for n in range(3)]
    for made, known in zip(records, labels, strict=True):
        made["thread"] |= {"meta:labels": known}
    await write_turns(store, records)
    before = in_scope(await states(store, budgets, now))
    assert {name: used for name, (used, _) in before.items()} == {"ada": 11, "beta": 21}
    for n in range(3):
        assert await delete_thread(store, ThreadKey(thread_uuid(f"chat{n}")[0]), budgets)
    assert in_scope(await states(store, budgets, now)) == before
