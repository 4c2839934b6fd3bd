"""Latency at a steady pace: from handing a run's `end` to a producer to the run's rows in the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from aiokafka import AIOKafkaProducer
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from pipeline.bench.load_topics import Site
from pipeline.bench.threadmill_runs import processes
from pipeline.bench.worker import Worker, worker
from pipeline.errors import StoreError
from pipeline.stores.engine import create_engine
from pipeline.stores.schema import threads
from pipeline.stores.sql import ThreadStore
from threadmill.kafka.client import client_options
from topics import catalog

RATE: Final = 5_000  # events/s
WARM_UP: Final = 5.0  # seconds; not counted
STEP: Final = 0.01  # seconds between two queries of the store: a figure is too high by this much at most
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

    async def look(self, engine: AsyncEngine) -> None:
        """Move the runs that are stored by now from `waiting` to `arrived`."""
        if not self.waiting:
            return
        query = select(threads.c.thread_key).where(threads.c.thread_key.in_(list(self.waiting)[:500]))
        async with engine.connect() as connection:
            found = (await connection.execute(query)).scalars().all()
        now = time.monotonic()
        self.arrived += [(self.waiting.pop(thread_id), now) for thread_id in found]


async def measure(site: Site, store: str) -> Latency:
    """Publish the site's load at RATE and watch the store (sqlite or postgres). Raises StoreError."""
    async with AsyncExitStack() as stack:
        if store == "postgres":
            url = await stack.enter_async_context(site.postgres())
        else:
            url = f"sqlite:///{site.settings.home / f'latency-{time.time_ns()}.db'}"
        await (await ThreadStore.open(url, migrate=True)).close()
        engine = create_engine(url)
        stack.push_async_callback(engine.dispose)
        settings = site.settings.model_copy(update={"store": url})
        workers = [await stack.enter_async_context(worker(one, roles)) for one, roles in processes(settings)]
        watch, began = Watch(), time.monotonic()
        publishing = asyncio.create_task(_publish(site, watch, workers))
        stack.callback(publishing.cancel)
        deadline = float("inf")
        while watch.waiting or not publishing.done():
            await watch.look(engine)
            await asyncio.sleep(STEP)
            if deadline == float("inf") and publishing.done():
                deadline = time.monotonic() + STORED_WITHIN
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{len(watch.waiting)} runs were not stored {STORED_WITHIN:.0f} s after the last record"
                )
        counted = sorted((end - sent) * 1000 for sent, end in watch.arrived if sent - began > WARM_UP)
        return Latency(store, counted, publishing.result())


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
