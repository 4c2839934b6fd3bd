"""Clocks that are a year ahead: nothing expires by a worker's word, stored or on its way, nor by that and its broker's.

The first test has a real broker, whose clock is its machine's: so the others patch what it answers.
"""

import logging
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from aiokafka import ConsumerRecord

from pipeline.cli.stored import store as store_commands
from pipeline.kafka.outbox import Outbox
from pipeline.observability.audit import Entry
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.accounts.audit import add_audit
from pipeline.stores.database.schema import audit
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.believed_time import JUMP_MS, believe, believed_time
from pipeline.stores.keeping.expiry import Expiry
from pipeline.stores.outbound.notices import due_notices
from pipeline.stores.turns import write_turns
from pipeline.turns.times import iso
from pipeline.worker.sinks import agreed_clock
from pipeline.worker.sinks.housekeeping import AuditKeeping, Connect, Expiring
from pipeline.worker.sinks.role import store_work, turn_writer
from tests.support.stored_threads import thread_keys
from tests.support.turn_records import make_record
from topics import turn_record
from topics.notice import CLOCK_AHEAD, decode, encode
from turnmill.clock import now_ms
from turnmill.errors import CallerError

YEAR_MS = 365 * 86_400_000


class NoProducer:
    """Nothing is refused, so nothing is sent by it."""


def said(chat: str, at: int) -> dict[str, Any]:
    """Return a record of a turn at this time, epoch ms."""
    record = make_record(chat)
    record["turn"] |= {"started_at": iso(at), "completed_at": iso(at)}
    record["turn"]["messages"][0]["timestamp"] = iso(at)
    return record


async def test_a_clock_that_is_a_year_ahead_expires_nothing(
    store_url: str, applied_settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = applied_settings.model_copy(update={"store": store_url, "store_retention": "30d"})
    now = time.time_ns() // 1_000_000
    for module in ("agreed_clock", "store"):
        monkeypatch.setattr(f"pipeline.worker.sinks.{module}.now_ms", lambda: time.time_ns() // 1_000_000 + YEAR_MS)
    async with await ThreadStore.open(store_url, migrate=True) as store:
        await write_turns(store, [said("stored", now), make_record("of January")])
        await add_audit(store, [Entry(now, "ann", "", "", "token.make", "t", None, "done")], notify=False)
        work = store_work(settings, Metrics(), NoProducer())
        steps = [each for each in work.housekeepers if isinstance(each, Expiring | AuditKeeping)]
        assert len(steps) == 2
        with caplog.at_level(logging.ERROR):
            for each in steps:
                await each._step()
        assert len([key async for key in thread_keys(store)]) == 1  # what is old by both clocks has gone
        assert len(await store.rows(audit.select())) == 1
        assert "this machine's clock is 31536" in caplog.text

        writer = turn_writer(settings, Metrics(), Outbox(NoProducer(), lambda letter: letter))
        value = turn_record.encode(said("on its way", now))
        record = ConsumerRecord("turns", 0, 7, now, 1, b"k", value, None, -1, len(value), ())
        await writer.apply([(0, [record])])
        assert len([key async for key in thread_keys(store)]) == 2
        await (await writer.store.get()).close()


@pytest.fixture
async def ahead(store_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[ThreadStore, Expiring]]:
    """Return a store of a thread of now, and its expiry by a worker and a broker that are a year ahead."""

    async def broker_time(connect: Connect) -> int:
        return now_ms() + YEAR_MS

    monkeypatch.setattr(agreed_clock, "broker_time", broker_time)
    monkeypatch.setattr(agreed_clock, "now_ms", lambda: now_ms() + YEAR_MS)
    settings = Settings(store=store_url, store_retention="30d")
    async with await ThreadStore.open(store_url, migrate=True) as store:
        await write_turns(store, [said("stored", now_ms())])

        async def opened() -> ThreadStore:
            return store

        clock = agreed_clock.AgreedClock(Mock(), opened)
        yield store, Expiring(partial(Expiry, settings), opened, Metrics(), clock)


async def chats(store: ThreadStore) -> int:
    """Return how many threads are stored."""
    return len([key async for key in thread_keys(store)])


async def test_a_jump_of_all_clocks_waits_for_an_operator(
    ahead: tuple[ThreadStore, Expiring], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, expiring = ahead
    for _ in range(2):
        await expiring._step()
    assert await chats(store) == 1
    assert "what expires waits (docs/retention.md)" in caplog.text
    [notice] = await due_notices(store, now_ms() + 2 * YEAR_MS)
    assert decode(encode(notice))["type"] == CLOCK_AHEAD
    assert YEAR_MS - 60_000 < notice["data"]["told"] - notice["data"]["seen"] < YEAR_MS + 60_000

    monkeypatch.setattr(store_commands, "now_ms", lambda: now_ms() + YEAR_MS)
    assert expiring._expiry is not None
    with pytest.raises(CallerError, match="if it is right, add --accept-time"):
        await store_commands._expire(expiring._expiry, dry_run=False, sure=False)
    assert await chats(store) == 1
    done = await store_commands._expire(expiring._expiry, dry_run=True, sure=True)
    assert done.threads == 1
    await expiring._step()
    assert await chats(store) == 1, "a dry run does not change what the workers believe"

    assert await store_commands._expire(expiring._expiry, dry_run=False, sure=True) == done
    assert await chats(store) == 0
    await write_turns(store, [said("another", now_ms())])
    await expiring._step()
    assert await chats(store) == 0, "the workers believe it, too"


async def test_a_jump_that_an_agents_clock_confirms_is_believed(ahead: tuple[ThreadStore, Expiring]) -> None:
    store, expiring = ahead
    await expiring._step()
    assert await chats(store) == 1
    await write_turns(store, [said("a year later", now_ms() + YEAR_MS)])
    await expiring._step()
    assert await chats(store) == 1, "the old thread has expired"


async def test_a_worker_that_goes_on_is_no_jump(store_url: str) -> None:
    async with await ThreadStore.open(store_url, migrate=True) as store:
        start = now_ms()
        assert await believed_time(store, start + JUMP_MS // 2) == start + JUMP_MS // 2
        assert await believed_time(store, start - JUMP_MS) == start - JUMP_MS, (
            "a clock that is behind deletes too little"
        )
        await believe(store, start + JUMP_MS // 2)
        later = start + 3 * JUMP_MS
        assert await believed_time(store, later) == start + JUMP_MS // 2
        assert await believed_time(store, later, passed=2 * JUMP_MS) == later
