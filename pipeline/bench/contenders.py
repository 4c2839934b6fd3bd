"""Who is measured: each a function from a filled site to what it did in how long, in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import orjson

from pipeline.app import consumer_group
from pipeline.bench.site import Observer, Site, until
from pipeline.bench.worker import environment, worker
from pipeline.errors import BrokerError
from topics import catalog

PROGRAM_WITHIN = 120.0  # seconds
TURNS_WITHIN = 120.0
COMMITTED_WITHIN = 30.0
FAUST_SHARE = {1: 0.03, 8: 0.05}  # of the load: its rate is what counts


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
    share = FAUST_SHARE.get(site.load.per_record, 1.0)
    return await _program("stock_faust", site, site.settings.partitions, int(site.load.events * share))


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
    """The same, until every turn is in the store. Both roles share the process."""
    group = consumer_group(site.settings, "assemble")
    await site.reset(group)
    async with site.observed() as observer, worker(site.settings, "assemble,store") as running:

        async def stored() -> bool:
            return await running.metric("threadmill_store_rows_total") >= site.load.runs

        end = await until(stored, TURNS_WITHIN, "all turns were in the store")
        await _committed(observer, group)
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
