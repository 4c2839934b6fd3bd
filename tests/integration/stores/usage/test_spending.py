"""What metrics of the store role say of costs: those of the last hour, and those that were told otherwise."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from pipeline.assembly.records import StoredRecord
from pipeline.kafka.outbox import Outbox, Producer
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import cost_since
from pipeline.stores.usage.summing import sum_up
from pipeline.worker.sinks import housekeeping
from pipeline.worker.sinks.housekeeping import HOUR_MS, Spending
from pipeline.worker.sinks.role import turn_writer
from topics import turn_record


def cost(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value(m.COST_LAST_HOUR.name)


def costing(record: Any, run: str, minutes_ago: int, usd: float | None) -> Any:
    one = record(run=run)
    at = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    (response,) = one["turn"]["messages"]
    response["timestamp"] = at.isoformat()
    response["usage"] = {"input_tokens": 1_000_000} | ({} if usd is None else {"cost": usd})
    response |= {"model_name": "claude-sonnet-4-6", "provider_name": "anthropic"}
    return one


async def looked(spent: Spending) -> None:
    spent.step()
    assert spent.under_way is not None
    await spent.under_way


async def test_it_is_that_of_the_store_whoever_looks(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def opened() -> ThreadStore:
        return store

    monkeypatch.setattr(housekeeping, "SPENT_INTERVAL", 0.0)
    await write_turns(
        store, [costing(record, "r0", 5, 1.5), costing(record, "r1", 50, None), costing(record, "r2", 70, 9.0)]
    )
    first, again = Metrics(), Metrics()
    one = Spending(opened, first)
    await looked(one)
    assert cost(first) == 1.5 + 3.0, "what the stream says, and what the price list says; nothing older than an hour"
    while await sum_up(store):
        pass
    await looked(one)
    await looked(Spending(opened, again))
    assert cost(first) == cost(again) == 4.5, "from sums, and after a restart"
    await write_turns(store, [costing(record, "r3", 1, 0.25)])
    await looked(one)
    assert cost(first) == 4.75
    assert await cost_since(store, time.time_ns() // 1_000_000 - 2 * HOUR_MS) == 13_750_000_000


async def test_a_worker_without_partitions_says_nothing(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [costing(record, "r0", 5, 1.5)])
    held, went_on = asyncio.Event(), asyncio.Event()

    async def opened() -> ThreadStore:
        held.set()
        await went_on.wait()
        return store

    metrics = Metrics()
    one = Spending(opened, metrics)
    one.step()
    before = one.under_way
    assert before is not None
    await held.wait()
    one.stop()
    went_on.set()
    await before
    assert cost(metrics) == 0, "it had begun to look before"
    await looked(one)
    assert cost(metrics) == 1.5
    one.stop()
    assert cost(metrics) == 0


async def test_stored_responses_that_were_told_another_cost_are_counted_once(store: ThreadStore, record: Any) -> None:
    """A million tokens of claude-sonnet-4-6 cost $3.00 (genai-prices 0.2.3); less than 1 % is no difference."""
    metrics = Metrics()
    writer = turn_writer(Settings(), metrics, Outbox(cast("Producer", None)))  # nothing is refused
    writer.store.value = store
    told = {"same": 3.0, "nearly": 3.02, "more": 3.04, "less": 0.5, "not": None}
    values = [turn_record.encode(costing(record, run, 5, usd)) for run, usd in told.items()]
    group: Any = [(0, [StoredRecord(value, offset, 0, b"key") for offset, value in enumerate(values)])]
    for _ in range(2):  # the second time is a replay
        await writer.apply(group)
        assert metrics.registry.get_sample_value(m.COST_DIFFERENCES.name) == 2
