"""A real primary with a hot standby behind the same address: the store is back once the address leads to a primary."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
from sqlalchemy import text

from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from pipeline.worker.host.work import Retry
from tests.chaos.stores import PostgresServer, Standby
from tests.producers.pgbouncer import pgbouncer
from tests.support.stored import stored_turns
from tests.support.turn_records import make_record

READERS = 5
BACK = 30.0  # seconds after the address leads to a primary
STANDBY = text("SELECT pg_is_in_recovery()")


@dataclass(slots=True)
class Writer:
    """Writes turn after turn as the store role does: the same turn again until it is stored."""

    store: ThreadStore
    written: list[str] = field(default_factory=list)
    failures: int = 0
    last: float = 0.0

    async def run(self) -> None:
        while True:
            turn = make_record("chat", f"r{len(self.written)}")
            await Retry("store", self._failed).until_done(partial(self._write, turn))
            self.written.append(turn["turn_id"])
            self.last = time.monotonic()

    async def _write(self, turn: dict[str, object]) -> None:
        await write_turns(self.store, [turn])

    def _failed(self) -> None:
        self.failures += 1

    async def back(self) -> float:
        """Wait until it has written two more turns, of which the later was begun after now. -> seconds."""
        began, before = time.monotonic(), len(self.written)
        async with asyncio.timeout(BACK):
            while len(self.written) < before + 2:
                await asyncio.sleep(0.05)
        return self.last - began


@asynccontextmanager
async def writing(store: ThreadStore) -> AsyncIterator[Writer]:
    """Write within the block; after it, each turn that was written is there once."""
    writer = Writer(store)
    task = asyncio.create_task(writer.run())
    try:
        await writer.back()
        yield writer
    finally:
        task.cancel()
        await asyncio.wait([task])
    stored = [found.record["turn_id"] async for found in stored_turns(store)]
    assert len(stored) == len({*stored})
    assert {*writer.written} <= {*stored}
    assert len(stored) <= len(writer.written) + 1, "at most the last turn was stored and not confirmed"


async def reads(store: ThreadStore) -> set[object]:
    """-> what several gateways' connections see at the same time: whether they are a standby's."""
    answers = await asyncio.gather(*(store.rows(STANDBY) for _ in range(READERS)))
    return {row[0] for rows in answers for row in rows}


@pytest.fixture
async def standby() -> AsyncIterator[Standby]:
    primary = await PostgresServer().start()
    found = Standby(primary)
    try:
        yield await found.start()
    finally:
        await found.end()
        await primary.end()


@asynccontextmanager
async def opened(standby: Standby, *, pooled: bool) -> AsyncIterator[tuple[ThreadStore, Writer]]:
    """-> the store behind the address that leads to either server, and its writer; `pooled`: behind PgBouncer."""
    async with AsyncExitStack() as stack:
        url = standby.primary.url(proxied=True)
        if pooled:
            url = await stack.enter_async_context(pgbouncer(standby.primary.outside, "session"))
        store = await stack.enter_async_context(await ThreadStore.open(url, migrate=True))
        writer = await stack.enter_async_context(writing(store))
        assert await reads(store) == {False}
        yield store, writer


@pytest.mark.parametrize("pooled", [False, True])
async def test_the_address_leads_to_the_standby_for_a_while(standby: Standby, *, pooled: bool) -> None:
    async with opened(standby, pooled=pooled) as (store, writer):
        standby.lead(standby)
        standby.primary.proxy.reset()
        await asyncio.sleep(5)
        assert writer.failures > 0
        with pytest.raises(StoreError, match=r"takes no writes|can't be reached|connection broke") as caught:
            await reads(store)
        assert caught.value.transient
        standby.lead(standby.primary)  # what is open to the standby stays open
        assert await writer.back() < BACK
        assert await reads(store) == {False}


@pytest.mark.parametrize("pooled", [False, True])
async def test_the_primary_is_killed_and_the_standby_promoted(standby: Standby, *, pooled: bool) -> None:
    async with opened(standby, pooled=pooled) as (store, writer):
        standby.primary.kill()
        standby.lead(standby)  # at once, as a name does that the standby answers to
        await asyncio.sleep(5)
        await standby.promote()
        assert await writer.back() < BACK
        assert await reads(store) == {False}


@pytest.mark.parametrize("pooled", [False, True])
async def test_a_managed_service_protects_a_full_disk(standby: Standby, *, pooled: bool) -> None:
    async with opened(standby, pooled=pooled) as (store, writer):
        database = "ALTER DATABASE postgres"
        await standby.primary.execute(f"{database} SET default_transaction_read_only = on", "template1")
        standby.primary.proxy.reset()
        await asyncio.sleep(7)
        assert writer.failures > 0
        assert await reads(store) == {False}, "what is stored can be read meanwhile"
        await standby.primary.execute(f"{database} RESET default_transaction_read_only", "template1")
        assert await writer.back() < BACK


async def test_several_hosts_mean_the_primary(standby: Standby) -> None:
    hosts = f"127.0.0.1:{standby.port},127.0.0.1:{standby.primary.port}"
    async with await ThreadStore.open(f"postgresql://postgres:@{hosts}/postgres", migrate=True) as store:
        await store.check_writing()
        assert await reads(store) == {False}


async def test_the_standby_alone_is_told(standby: Standby) -> None:
    with pytest.raises(StoreError, match=r"takes no writes: a standby.*name the primary") as caught:
        await ThreadStore.open(standby.url())
    assert caught.value.transient


async def test_a_pooler_of_transactions_is_refused_with_a_sentence(standby: Standby) -> None:
    async with pgbouncer(standby.primary.port, "transaction") as url:
        async with ThreadStore(url) as store:
            await store.migrate()
        for _ in range(3):
            with pytest.raises(StoreError, match="set its pool_mode to session") as caught:
                await ThreadStore.open(url)
            assert not caught.value.transient
