"""A worker's memory: while it reads a backlog, and with many open turns."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from pipeline.observability import metrics as m
from tests.bench.load_topics import Site, until
from tests.bench.turnmill_runs import processes
from tests.bench.worker import worker

READ_WITHIN: Final = 180.0  # seconds
SPILL_AFTER: Final = 5.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """The largest resident bytes of a worker with a store while it read a backlog of `events`."""

    events: int
    most: float


@dataclass(frozen=True, slots=True)
class OpenTurns:
    """A worker's resident bytes with `turns` open: just `read`, and `spilled` to the state topic."""

    turns: int
    read: float
    spilled: float


async def backlog(site: Site) -> Backlog:
    """Read a filled site's load into SQLite until all is stored."""
    most = 0.0
    settings = site.settings.model_copy(
        update={"store": f"sqlite:///{site.settings.home / site.settings.topic_prefix}.db"}
    )
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(worker(one, roles)) for one, roles in processes(settings)]

        async def stored() -> bool:
            nonlocal most
            most = max(most, sum([await running.memory() for running in workers]))
            return await workers[0].metric(m.STORE_ROWS.name) >= site.load.outcome.turns

        await until(stored, READ_WITHIN, f"{site.load.events:,} events were stored")
    return Backlog(site.load.events, most)


async def open_turns(site: Site) -> OpenTurns:
    """A worker with the assemble role; none of the load's runs ends."""
    settings = site.settings.model_copy(update={"spill_after": SPILL_AFTER})
    async with worker(settings, "assemble") as running:

        async def read() -> bool:
            return await running.metric(m.EVENTS_ASSEMBLED.name) >= site.load.events

        async def spilled() -> bool:
            return await running.metric(m.SEGMENTS_SPILLED.name) >= site.load.runs

        await until(read, READ_WITHIN, "the worker had read all open turns")
        most = await running.memory()
        await until(spilled, READ_WITHIN, "all open turns were in the state topic")
        # Until the last runs are spilled, and the memory of sent records is free.
        await asyncio.sleep(SPILL_AFTER + 2 * settings.checkpoint_interval)
        return OpenTurns(site.load.runs, most, await running.memory())
