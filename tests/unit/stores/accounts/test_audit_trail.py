"""Entries on their way to the store: while it is away they wait, what is lost is counted, repeated ones count once."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pipeline.observability.audit import Actor, Entry, acting, audit, of
from pipeline.stores.accounts import audit as audit_trail
from pipeline.stores.accounts.audit import AuditTrail
from pipeline.stores.database.errors import StoreError
from tests.support.fake_stores import answer_by_methods

ENTRY = Entry(1, "ann", "tk_1", "10.0.0.1", "token.make", "tk_2", "acme", "done")


class Store:
    """Takes entries, unless it is away."""

    def __init__(self) -> None:
        self.away = False
        self.entries: list[Entry] = []
        self.written, self.answering = asyncio.Event(), asyncio.Event()
        self.answering.set()

    async def __call__(self) -> Any:
        if self.away:
            raise StoreError("it is away", transient=True)
        return self

    async def add_audit(self, entries: Sequence[Entry], *, notify: bool) -> None:
        assert notify
        assert len(entries) <= audit_trail.BATCH_SIZE
        self.entries += entries
        self.written.set()
        await self.answering.wait()


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_by_methods(monkeypatch, Store)


async def test_entries_wait_for_the_store_and_what_is_too_much_is_counted() -> None:
    store, lost = Store(), list[int]()
    trail = AuditTrail(store, lost.append, notify=True)
    store.away = True
    trail._waiting.size = 100_000
    for _ in range(200):
        trail.keep(ENTRY)
    held = 200 - len(lost)
    assert 50 < held < 150
    assert trail._waiting.shares.total < 100_000
    await trail.close()
    assert lost == [*[1] * (200 - held), held]
    store.away = False
    await trail.close()
    assert len(store.entries) == held


async def test_entries_are_written_in_the_order_in_which_they_came_whoever_they_are_of() -> None:
    store = Store()
    trail = AuditTrail(store, list[int]().append, notify=True)
    entries = [replace(ENTRY, at=number, tenant="ab"[number % 2]) for number in range(2 * audit_trail.BATCH_SIZE + 5)]
    for entry in entries:
        trail.keep(entry)
    await trail.flush()
    assert store.entries == entries


async def test_a_write_that_runs_when_it_closes_is_not_repeated() -> None:
    store = Store()
    store.answering.clear()
    trail = AuditTrail(store, list[int]().append, notify=True)
    trail.keep(ENTRY)
    trail.start()
    await store.written.wait()  # it is committed, and the trail does not know
    closing = asyncio.create_task(trail.close())
    await asyncio.sleep(0)
    trail.keep(ENTRY)
    store.answering.set()
    await closing
    assert store.entries == [ENTRY, ENTRY]


async def test_the_same_counts_once_a_minute_and_of_more_than_a_thousand_their_number() -> None:
    store = Store()
    trail = AuditTrail(store, list[int]().append, notify=True)
    assert [trail.is_new(at, "acme", "x") for at in (0, 59_999, 60_000, 60_001)] == [True, False, True, False]
    assert sum(trail.is_new(120_000, "acme", number) for number in range(5_000)) == audit_trail.MAX_COUNTED
    await trail.close()
    [more] = store.entries
    assert (more.at, more.action, more.tenant, more.outcome) == (179_999, audit_trail.MORE, "acme", "refused")
    assert more.subject == str(5_000 - audit_trail.MAX_COUNTED)


def test_strangers_leave_the_entries_of_others_alone() -> None:
    trail = AuditTrail(Store(), list[int]().append, notify=True)
    for number in range(2 * audit_trail.MAX_COUNTED):
        trail.is_new(0, None, number)
        trail.is_new(0, "evil", number)
    assert trail.is_new(0, "acme", "thread.export")


async def test_refusals_leave_room_for_what_was_done() -> None:
    store, lost = Store(), list[int]()
    trail = AuditTrail(store, lost.append, notify=True)
    store.away = True
    trail._waiting.size = 100_000
    for number in range(200):
        trail.keep(replace(ENTRY, at=number * 60_000, outcome="refused"))
    assert trail._waiting.shares.total < 50_000
    trail.keep(ENTRY)
    store.away = False
    await trail.close()
    assert store.entries[-1] == ENTRY
    assert len(store.entries) == 201 - len(lost) > 1


def test_a_line_that_names_an_action_is_an_entry_of_who_acts() -> None:
    kept = list[Entry]()
    before = acting.set(Actor("ann", "tk_1", "10.0.0.1", "acme", kept.append))
    try:
        audit.info("made %s", "x", extra=of("token.make", "tk_2", "acme"))
        audit.info("of no action", extra={"tenant": "acme"})
        logging.getLogger("pipeline.other").warning("another log", extra=of("token.make", "tk_2"))
    finally:
        acting.reset(before)
    audit.info("of nobody", extra=of("token.make", "tk_2"))
    [entry] = kept
    assert entry == Entry(entry.at, "ann", "tk_1", "10.0.0.1", "token.make", "tk_2", "acme", "done")
