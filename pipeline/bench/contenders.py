"""Who is measured: each a function from a filled site to what it did in how long, in a process of its own."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import orjson

from pipeline import metrics as m
from pipeline.app import consumer_group
from pipeline.bench.site import Observer, Site, until
from pipeline.bench.worker import environment, worker
from pipeline.errors import BrokerError, StoreError
from pipeline.stores.sql import ThreadStore
from topics import catalog

PROGRAM_WITHIN = 120.0  # seconds
TURNS_WITHIN = 120.0
COMMITTED_WITHIN = 30.0
FAUST_RECORDS = 40_000  # it does not get the whole load: its rate is what counts


@dataclass(frozen=True, slots=True)
class Measured:
    """`events` in `seconds`."""

    events: int
    seconds: float

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


async def raw(site: Site) -> Measured:
    """From the first fetch to the last record."""
    return await _program("raw_reader", site, site.load.events)


async def stock_faust(site: Site) -> Measured:
    """From the first record to the last of its share."""
    finished = f"{site.topic(catalog.EVENTS)}-faust-turns"
    await site.create(finished)
    events = min(site.load.events, FAUST_RECORDS * site.load.per_record)
    return await _program("stock_faust", site, finished, site.settings.partitions, events)


async def _program(name: str, site: Site, *arguments: object) -> Measured:
    """Run pipeline.bench.NAME; it prints what it measured."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"pipeline.bench.{name}", site.settings.brokers, site.topic(catalog.EVENTS)),
        *map(str, arguments),
        env=environment(site.settings),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), PROGRAM_WITHIN)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise BrokerError(f"{name} did not read {site.load.events} events in {PROGRAM_WITHIN:.0f} s") from None
    if process.returncode:
        raise BrokerError(f"{name} failed:\n{errors.decode()[-3000:]}")
    return Measured(**orjson.loads(output.splitlines()[-1]))


async def to_turns(site: Site) -> Measured:
    """From the moment at which the worker reads until every turn is on the turns topic; then all must be committed."""
    group = consumer_group(site.settings, "assemble")
    await site.reset(group)
    async with site.observed() as observer:
        before = await observer.records(catalog.TURNS)

        async def delivered() -> bool:
            return await observer.records(catalog.TURNS) >= before + site.load.runs

        async with worker(site.settings, "assemble") as running:
            end = await until(delivered, TURNS_WITHIN, "all turns were on the turns topic")
            await _committed(observer, group)
        return Measured(site.load.events, end - running.began)


async def to_sqlite(site: Site) -> Measured:
    """The same, until every turn is in a new store. Both roles share the process."""
    group = consumer_group(site.settings, "assemble")
    await site.reset(group)
    file = site.settings.home / f"{site.settings.topic_prefix}-{time.time_ns()}.db"
    settings = site.settings.model_copy(update={"store": f"sqlite:///{file}"})
    async with site.observed() as observer, worker(settings, "assemble,store") as running:

        async def stored() -> bool:
            return await running.metric(m.STORE_ROWS.name) >= site.load.runs

        end = await until(stored, TURNS_WITHIN, "all turns were in the store")
        await _committed(observer, group)
    async with await ThreadStore.open(settings.store_url) as store:
        turns = (await store.counts()).turns
    if turns != site.load.runs:
        raise StoreError(f"{turns} turns are stored of {site.load.runs} runs: the figures would mean nothing")
    return Measured(site.load.events, end - running.began)


async def _committed(observer: Observer, group: str) -> None:
    """Wait until the group has committed all records of the load, and see that it refused none."""
    records = await observer.records(catalog.EVENTS)

    async def committed() -> bool:
        return await observer.committed(group, catalog.EVENTS) >= records

    await until(committed, COMMITTED_WITHIN, "all offsets were committed")
    dead = await observer.records(catalog.DEAD_LETTERS)
    if dead:
        raise BrokerError(f"{dead} records of the load became dead letters: the figures would mean nothing")


@dataclass(frozen=True, slots=True)
class Contender:
    """One line of the table."""

    name: str
    title: str
    measure: Callable[[Site], Awaitable[Measured]]


LIMIT: Final = "raw"
STOCK: Final = "faust"

CONTENDERS: Final[dict[str, Contender]] = {
    contender.name: contender
    for contender in (
        Contender(LIMIT, "raw read: aiokafka + orjson.loads, no job", raw),
        Contender("turns", "Threadmill to the turns topic", to_turns),
        Contender("sqlite", "Threadmill to SQLite", to_sqlite),
        Contender(STOCK, "stock Faust agent, async for", stock_faust),
    )
}
