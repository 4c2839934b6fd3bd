"""A worker whose clock is a year ahead, by a real broker: nothing expires by its word, stored or on its way."""

import logging
import time

import pytest
from aiokafka import ConsumerRecord

from pipeline.kafka.outbox import Outbox
from pipeline.observability.audit import Entry
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.accounts.audit import add_audit
from pipeline.stores.database.schema import audit
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from pipeline.turns.times import iso
from pipeline.worker.sinks.housekeeping import AuditKeeping, Expiring
from pipeline.worker.sinks.role import store_work, turn_writer
from tests.support.stored_threads import thread_keys
from tests.support.turn_records import make_record
from topics import turn_record

YEAR_MS = 365 * 86_400_000


class NoProducer:
    """Nothing is refused, so nothing is sent by it."""


async def test_a_clock_that_is_a_year_ahead_expires_nothing(
    store_url: str, applied_settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = applied_settings.model_copy(update={"store": store_url, "store_retention": "30d"})
    now = time.time_ns() // 1_000_000

    def said(chat: str) -> dict[str, object]:
        record = make_record(chat)
        record["turn"] |= {"started_at": iso(now), "completed_at": iso(now)}
        record["turn"]["messages"][0]["timestamp"] = iso(now)
        return record

    for module in ("housekeeping", "store"):
        monkeypatch.setattr(f"pipeline.worker.sinks.{module}.now_ms", lambda: time.time_ns() // 1_000_000 + YEAR_MS)
    async with await ThreadStore.open(store_url, migrate=True) as store:
        await write_turns(store, [said("stored"), make_record("of January")])
        await add_audit(store, [Entry(now, "ann", "", "", "token.make", "t", None, "done")], notify=False)
        work = store_work(settings, Metrics(), NoProducer())
        steps = [each for each in work.housekeepers if isinstance(each, Expiring | AuditKeeping)]
        assert len(steps) == 2
        with caplog.at_level(logging.ERROR):
            for each in steps:
                await each._step()
        assert len([key async for key in thread_keys(store)]) == 1  # what is old by both clocks has gone
        assert len(await store.rows(audit.select())) == 1
        assert "ahead of the broker's" in caplog.text

        writer = turn_writer(settings, Metrics(), Outbox(NoProducer(), lambda letter: letter))
        value = turn_record.encode(said("on its way"))
        record = ConsumerRecord("turns", 0, 7, now, 1, b"k", value, None, -1, len(value), ())
        await writer.apply([(0, [record])])
        assert len([key async for key in thread_keys(store)]) == 2
        await (await writer.store.get()).close()
