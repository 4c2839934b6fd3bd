"""How a worker grows: with its processes, with the partitions of its topics, and with the closed runs it remembers."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from aiokafka.errors import KafkaError

from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from pipeline.observability import metrics as m
from pipeline.settings import Settings
from tests.bench.load_topics import Site, until
from tests.bench.loads import brief, text
from tests.bench.result import Measured
from tests.bench.turnmill_runs import by_processes
from tests.bench.worker import Worker, worker
from topics import catalog

PROCESSES: Final = (1, 2, 4)
RUNS: Final = 80_000  # of 150 events: enough is left to read when the last process has come
PARTITIONS: Final = (12, 96, 480)
CLOSED: Final = (0, 10_000, 100_000)  # runs
CREATED_WITHIN: Final = 180.0  # seconds
CLOSED_WITHIN: Final = 600.0
SETTLED_WITHIN: Final = 60.0
QUIET: Final = 5.0  # seconds with nothing to do
LOOK: Final = 0.01  # seconds between two looks at a worker that may stand still

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Processes:
    """One worker of `count` processes, to the turns topic."""

    count: int
    measured: Measured


@dataclass(frozen=True, slots=True)
class Grown:
    """A worker with the assemble role, started where its state topic had so many `entries`.

    `ready`: seconds from its start until it did its work; `cpu`: CPU seconds until then; `memory`: resident bytes.
    `joined`, `left`: seconds for which it stood still as a second worker came, and went. `idle`: share of a core while
    there was nothing to do.
    """

    partitions: int
    closed: int
    entries: int
    ready: float
    cpu: float
    memory: float
    idle: float
    joined: float
    left: float


@dataclass(slots=True)
class Scale:
    """All figures."""

    processes: list[Processes] = field(default_factory=list)
    grown: list[Grown] = field(default_factory=list)


async def processes(settings: Settings, progress: Progress) -> AsyncIterator[Processes]:
    """The same load by one worker of 1, 2 and 4 processes. Raises BrokerError."""
    load = text("scale", "text deltas, 8 events a record", RUNS, per_record=8)
    site = Site(settings.model_copy(update={"topic_prefix": "bench-scale"}), load)
    progress(f"scale: publishing {load.events:,} events")
    await site.fill()
    for count in PROCESSES:
        progress(f"scale: one worker of {count} process(es)")
        yield Processes(count, await by_processes(site, count))


async def partitions(settings: Settings, count: int, progress: Progress) -> AsyncIterator[Grown]:
    """A worker on topics of so many partitions, with more and more closed runs. Raises BrokerError."""
    own = settings.model_copy(update={"topic_prefix": f"bench-scale-{count}", "partitions": count})
    await apply_topics(own)
    await _reachable(Site(own, brief("closed", 0)))
    before = 0
    for closed in CLOSED:
        progress(f"scale: {count} partitions, {closed:,} closed runs")
        site = Site(own, brief(f"closed-{closed}", closed - before))
        if site.load.runs:
            await _close(site)
        yield await _grown(site, closed)
        before = closed


async def _reachable(site: Site) -> None:
    """Wait until each partition has a leader: for thousands of new ones the broker takes its time."""

    async def told() -> bool:
        try:
            async with site.observed() as observer:
                for topic in catalog.CATALOG:
                    await observer.ends(topic)
        except KafkaError:
            return False
        return True

    await until(told, CREATED_WITHIN, "new partitions had their leaders")


async def _close(site: Site) -> None:
    """Have all runs of the load assembled, and remembered as closed."""
    async with site.observed() as observer, worker(site.settings, "assemble"):
        turns = await observer.kept(catalog.TURNS) + site.load.outcome.turns
        await site.fill()

        async def closed() -> bool:
            return await observer.kept(catalog.TURNS) >= turns

        await until(closed, CLOSED_WITHIN, f"{site.load.runs:,} runs were closed")


async def _grown(site: Site, closed: int) -> Grown:
    settings = site.settings
    async with site.observed() as observer:
        entries = await observer.kept(catalog.STATE)
    began = time.monotonic()
    async with worker(settings, "assemble") as running:
        ready, cpu, memory = time.monotonic() - began, await running.cpu(), await running.memory()
        before = await running.cpu()
        await asyncio.sleep(QUIET)
        idle = (await running.cpu() - before) / QUIET
        async with AsyncExitStack() as stack:
            async with _pause(running) as joined:
                other = settings.model_copy(update={"port": free_ports(1)[0]})
                await stack.enter_async_context(worker(other, "assemble"))
            async with _pause(running) as left:
                await stack.aclose()
    return Grown(settings.partitions, closed, entries, ready, cpu, memory, idle, sum(joined), sum(left))


@asynccontextmanager
async def _pause(running: Worker) -> AsyncIterator[list[float]]:
    """-> the seconds for which the worker stood still while the group's members changed: once the block is over, and
    the worker has its partitions of the time after it.
    """
    found: list[float] = []
    rebalances = await running.metric(m.REBALANCES.name)
    watching = asyncio.ensure_future(_stood_still(running, found))

    async def settled() -> bool:
        return await running.metric(m.REBALANCES.name) > rebalances and await running.ready()

    try:
        yield found
        await until(settled, SETTLED_WITHIN, "the group had come to rest")
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _stood_still(running: Worker, found: list[float]) -> None:
    """Put down the time of each look that finds the worker without its partitions."""
    looked = time.monotonic()
    while True:
        ready = await running.ready()
        now = time.monotonic()
        if not ready:
            found.append(now - looked)
        looked = now
        await asyncio.sleep(LOOK)
