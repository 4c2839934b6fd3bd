"""Latency at a steady pace: from handing a run's `end` to a producer to the run's rows in the store."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from aiokafka import AIOKafkaProducer

from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from tests.bench.arrivals import arrivals
from tests.bench.load_topics import Site
from tests.bench.turnmill_runs import processes
from tests.bench.worker import Worker, worker
from topics import catalog
from turnmill.kafka.client import client_options

RATE: Final = 5_000  # events/s
WARM_UP: Final = 5.0  # seconds; not counted
STORED_WITHIN: Final = 30.0  # seconds after the last record


@dataclass(frozen=True, slots=True)
class Latency:
    """`ms` of each run, ascending; `memory`: the worker's largest resident bytes meanwhile."""

    store: str
    ms: Sequence[float]
    memory: float


@dataclass(slots=True)
class Watch:
    """`waiting`: thread -> when its end was sent; `arrived`: (sent, stored) of each run; times of time.monotonic()."""

    waiting: dict[str, float] = field(default_factory=dict)
    arrived: list[tuple[float, float]] = field(default_factory=list)

    async def look(self, stored: AsyncIterator[tuple[str, float]], runs: int) -> None:
        """Move the runs that arrive from `waiting` to `arrived`, until so many have."""
        async for key, at in stored:
            self.arrived.append((self.waiting.pop(key), at))
            if len(self.arrived) == runs:
                return


async def measure(site: Site, store: str) -> Latency:
    """Publish the site's load at RATE and watch the store (sqlite or postgres). Raises StoreError."""
    async with AsyncExitStack() as stack:
        if store == "postgres":
            url = await stack.enter_async_context(site.postgres())
        else:
            url = f"sqlite:///{site.settings.home / f'latency-{time.time_ns()}.db'}"
        await (await ThreadStore.open(url, migrate=True)).close()
        settings = site.settings.model_copy(update={"store": url})
        workers = [await stack.enter_async_context(worker(one, roles)) for one, roles in processes(settings)]
        watch, began = Watch(), time.monotonic()
        stored = await stack.enter_async_context(arrivals(url))
        looking = asyncio.create_task(watch.look(stored, site.load.runs))
        stack.callback(looking.cancel)
        memory = await _publish(site, watch, workers)
        try:
            await asyncio.wait_for(looking, STORED_WITHIN)
        except TimeoutError:
            left = f"{len(watch.waiting)} runs were not stored {STORED_WITHIN:.0f} s after the last record"
            raise StoreError(left) from None
        counted = sorted((end - sent) * 1000 for sent, end in watch.arrived if sent - began > WARM_UP)
        return Latency(store, counted, memory)


async def _publish(site: Site, watch: Watch, workers: Sequence[Worker]) -> float:
    """Publish the load at RATE. -> the largest resident bytes of all workers together."""
    topic, most = site.topic(catalog.EVENTS), 0.0
    options = client_options(site.settings)
    async with AIOKafkaProducer(**options, acks="all", linger_ms=5, enable_idempotence=True) as producer:
        began = time.monotonic()
        for number, (key, value) in enumerate(site.load.records()):
            if number % 25 == 0:
                await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
            if b'"end":' in value:
                watch.waiting[key.decode()] = time.monotonic()
            await producer.send(topic, key=key, value=value)
            if number % RATE == 0:
                most = max(most, sum([await running.memory() for running in workers]))
        await producer.flush()
    return most
