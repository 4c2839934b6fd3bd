"""Agents that publish: the real micro-batches, the real delivery, and the real spool on a disk in memory."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.simulation.broker import AgentProducer, Broker
from tests.simulation.loop import START, Process
from tests.simulation.tenants import Run
from turnmill.kafka.producer import KafkaProducer
from turnmill.publish.counts import Counts
from turnmill.publish.delivery import Delivery
from turnmill.publish.micro_batch import MicroBatch
from turnmill.publish.spool import Spool

SPOOL_BYTES: Final = 1_000_000
EVENTS: Final = "turnmill.events"
DRAINED: Final = 60.0  # seconds that one gets to send what others left


class Agent:
    """One process with a publisher. `promised`: the records that its delivery has said to have kept."""

    def __init__(self, broker: Broker, process: Process, folder: Path, runs: Sequence[Run], seconds: float) -> None:
        self.broker = broker
        self.process = process
        self.folder = folder
        self.runs = list(runs)
        self.seconds = seconds
        self.promised: list[bytes] = []
        self.put: list[bytes] = []
        self.done = False
        self.spool: Spool | None = None
        process.at_death.append(self._died)

    def start(self) -> None:
        """Run it in its process."""
        self.process.start(self._run())

    def _died(self) -> None:
        """The system closes its files, and so frees its lock."""
        spool, self.spool = self.spool, None
        if spool is not None:
            for descriptor in (spool._lock, spool._live, *spool._old):
                if descriptor is not None:
                    with suppress(OSError):
                        os.close(descriptor)

    async def _run(self) -> None:
        rng = self.broker.rng
        self.spool = Spool(self.folder, SPOOL_BYTES)
        counts = Counts(adopted=self.spool.adopted)
        delivery = Delivery(self._connect, "simulated", counts, self.spool)
        left = [
            (run, MicroBatch(run.identity, run.info, max_events=rng.randint(1, 4)), iter(run.events))
            for run in self.runs
        ]
        pause = self.seconds / (sum(len(run.events) + 1 for run in self.runs) or 1)
        while left:
            await asyncio.sleep(rng.expovariate(1 / pause))
            run, batch, events = item = rng.choice(ready(left))
            event = next(events, None)
            if event is None:
                left.remove(item)
                if run.end is not None or len(batch):
                    await self._hand(delivery, run, [batch.take(run.end, at=self._now())])
                continue
            await self._hand(delivery, run, batch.add(event, self._now()))
            if rng.random() < 0.1 and len(batch):
                await self._hand(delivery, run, [batch.take(at=self._now())])
            if rng.random() < 0.1:
                mark = list(self.put)
                if await delivery.kept(rng.choice((0.01, 2.0))):
                    self.promised = mark
        unkept = await delivery.close(rng.choice((0.1, 5.0)) if self.runs else DRAINED)
        self.spool = None
        if unkept == 0:
            self.promised = list(self.put)
        self.done = True
        self.process.kill()

    async def _hand(self, delivery: Delivery, run: Run, records: Sequence[bytes]) -> None:
        for record in records:
            await delivery.room()
            delivery.put(run.key, record)
            self.put.append(record)

    def _now(self) -> int:
        return int((START + self.broker.loop.now + self.process.skew) * 1000)

    async def _connect(self) -> KafkaProducer:
        await asyncio.sleep(self.broker.delay())
        if self.broker.down:
            from turnmill.errors import BrokerError

            raise BrokerError("no broker answers")
        return KafkaProducer(AgentProducer(self.broker, self.process), EVENTS)


def ready(left: Sequence[Any]) -> list[Any]:
    """Of runs that are left, those that may go on: a conversation has one after the other."""
    begun: set[object] = set()
    found = []
    for item in left:
        run = item[0]
        place = (run.tenant, run.thread_id)
        if not run.screen or place not in begun:
            found.append(item)
        begun.add(place)
    return found
