"""Measure Turnmill: to the turns topic, and to a store."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import MappingProxyType
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from pipeline.devbroker.ports import free_ports
from pipeline.observability import metrics as m
from pipeline.settings import Settings
from pipeline.stores.database.engine import create_engine
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.schema import turns
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.usage.summing import keep_sums
from pipeline.worker.host.roles import ROLES
from tests.bench.load_topics import Observer, Site, until
from tests.bench.result import Measured
from tests.bench.worker import worker
from topics import catalog
from turnmill.errors import BrokerError

TURNS_WITHIN = 180.0  # seconds
COMMITTED_WITHIN = 30.0
LEFT = 0.3  # of a load, at least, for figures that mean something
CORES_FOR_TWO = 3  # the broker has one
USUAL: Final[Mapping[str, object]] = MappingProxyType({})
STORED = select(func.count()).select_from(turns)


async def to_turns(site: Site) -> Measured:
    """From the worker's first read until every turn is on the turns topic. All offsets must be committed afterwards."""
    await site.reset()
    async with site.observed() as observer, worker(site.settings, "assemble") as running:
        before = await running.cpu()
        end = await until(partial(_delivered, observer), TURNS_WITHIN, "all turns were on the turns topic")
        spent = await running.cpu()
        await _committed(observer)
        return Measured(site.load.events, end - running.began, spent - before if spent else None)


async def by_processes(site: Site, count: int) -> Measured:
    """The same by one worker of so many processes, from the moment at which all of them read; events read before are
    left out. Raises BrokerError where that was nearly all.
    """
    await site.reset()
    async with site.observed() as observer, worker(site.settings, "assemble", count) as running:
        began, read = time.monotonic(), await running.metric(m.EVENTS_ASSEMBLED.name)
        before = await running.cpu()
        if site.load.events - read < LEFT * site.load.events:
            raise BrokerError(f"{read:,.0f} of {site.load.events:,} events were read before all {count} processes were")
        end = await until(partial(_delivered, observer), TURNS_WITHIN, "all turns were on the turns topic")
        spent = await running.cpu()
        read = await running.metric(m.EVENTS_ASSEMBLED.name) - read
        await _committed(observer)
        return Measured(int(read), end - began, spent - before if spent else None)


def cores_for_two_workers() -> str | None:
    """The cores that two workers and a broker need; None where the machine has them."""
    cores = os.cpu_count() or 1
    return None if cores > CORES_FOR_TWO else f"four cores, of which one is the broker's; there are {cores}"


async def to_sqlite(site: Site, kept: Mapping[str, object] = USUAL) -> Measured:
    """Until every turn is in a new SQLite file. `kept`: settings that say what is kept beside the turns."""
    url = _new_file(site)
    return await _to_store(site, processes(_with(site, url, kept)))


async def to_sqlite_of_two(site: Site) -> Measured:
    """The same, by one worker that has a process for each role, and one that starts them."""
    return await _to_store(site, [(_with(site, _new_file(site)), "assemble,store")], each=2)


async def to_postgres(site: Site, kept: Mapping[str, object] = USUAL) -> Measured:
    """Until every turn is in a new Postgres database. `kept` as for `to_sqlite`."""
    async with site.postgres() as url:
        return await _to_store(site, processes(_with(site, url, kept)))


def _new_file(site: Site) -> str:
    return f"sqlite:///{site.settings.home / f'{site.settings.topic_prefix}-{time.time_ns()}.db'}"


def _with(site: Site, url: str, kept: Mapping[str, object] = USUAL) -> Settings:
    return site.settings.model_copy(update={"store": url, **kept})


async def _to_store(site: Site, started: Sequence[tuple[Settings, str]], each: int = 1) -> Measured:
    """`started`: workers as `processes` gives them, which have `each` so many processes."""
    await site.reset()
    settings = started[0][0]
    async with await ThreadStore.open(settings.store_url, migrate=True) as store:
        await keep_sums(store, wanted=settings.usage_sums)  # from the first turn on
        engine = create_engine(settings.store_url)
        async with site.observed() as observer, AsyncExitStack() as stack:
            stack.push_async_callback(engine.dispose)
            workers = [await stack.enter_async_context(worker(one, roles, each)) for one, roles in started]
            before = sum([await running.cpu() for running in workers])
            stored = partial(_stored, engine, site.load.outcome.turns)
            end = await until(stored, TURNS_WITHIN, "all turns were in the store")
            spent = sum([await running.cpu() for running in workers])
            await _committed(observer)
        runs = (await count_rows(store)).runs
    if runs != site.load.runs:
        raise StoreError(f"{runs} runs are stored of {site.load.runs}: the figures would mean nothing")
    return Measured(site.load.events, end - workers[-1].began, spent - before if spent else None)


def processes(settings: Settings) -> list[tuple[Settings, str]]:
    """(settings, roles) of each process: the store role first, in a process of its own where it has a core."""
    if not apart():
        return [(settings, "assemble,store")]
    return [(settings.model_copy(update={"port": free_ports(1)[0]}), "store"), (settings, "assemble")]


def apart() -> bool:
    """Whether each role gets a process of its own."""
    return (os.cpu_count() or 1) >= CORES_FOR_TWO


async def _delivered(observer: Observer) -> bool:
    return await observer.kept(catalog.TURNS) >= observer.site.load.outcome.turns


async def _stored(engine: AsyncEngine, expected: int) -> bool:
    """Asked of the store: a page of metrics, twenty times a second, would be the worker's CPU."""
    async with engine.connect() as connection:
        return bool(await connection.scalar(STORED) == expected)


async def _committed(observer: Observer) -> None:
    """Wait until the group has committed all records of the load. Raises BrokerError for unexpected dead letters."""
    settings, expected = observer.site.settings, observer.site.load.outcome.dead
    records = await observer.records(catalog.EVENTS)

    async def committed() -> bool:
        return await observer.committed(ROLES["assemble"].group(settings), catalog.EVENTS) >= records

    await until(committed, COMMITTED_WITHIN, "all offsets were committed")
    dead = await observer.kept(catalog.DEAD_LETTERS)
    if dead != expected:
        raise BrokerError(f"{dead} dead letters instead of {expected}: the figures would mean nothing")
