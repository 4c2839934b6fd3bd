"""The consumer of one role: what Faust and `BatchConsumer` do between a group and a stage, with the real `Stage`."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from aiokafka.errors import KafkaError

from pipeline.worker.host.batch_consumer import COMMIT_TIMEOUT, QUIESCE_TIMEOUT
from pipeline.worker.host.commits import HOLE_READS, Stage
from pipeline.worker.host.work import Batch
from tests.simulation.broker import Broker, over
from tests.simulation.group import Group, Member
from tests.simulation.loop import Process

POLL: Final = 3.0  # seconds that an empty fetch waits: runs time out by them
LAZY: Final = 12.0  # the same, of a role to which an empty fetch says nothing
BUFFER: Final = 2  # batches before the agent
PAUSE: Final = 0.5  # as the agent's of a Faust app, behind a batch that failed


class Consumer:
    """See above; it is the stage's `Source`."""

    def __init__(self, broker: Broker, process: Process, group: Group, stage: Stage, checkpoint: float) -> None:
        self.broker = broker
        self.process = process
        self.group = group
        self.stage = stage
        self.checkpoint = checkpoint
        self.topic = stage.topic.removeprefix("turnmill.")
        self.member = Member(f"{process.name}/{stage.name}", process)
        self.mine: list[int] = []
        self.generation = 0
        self.positions: dict[int, int] = {}
        self.polled: dict[int, int] = {}
        self.dropped: Counter[tuple[int, int]] = Counter()
        self.queue: asyncio.Queue[tuple[int, Batch, int]] = asyncio.Queue(BUFFER)
        self.stopping = False
        self.flow = asyncio.Event()
        self.uncommitted = asyncio.Event()
        self.fetching: asyncio.Future[None] | None = None  # an empty fetch
        assembles = stage.name == "assemble"  # nothing else depends on time as much
        self.rare, self.poll = (1, POLL) if assembles else (3, LAZY)

    # ---- as the stage sees it

    async def seek_to_starts(self) -> Mapping[int, int]:
        await self.broker.answer()
        starts = {}
        for partition in self.mine:
            starts[partition] = self.group.committed.get(partition, self.broker.log(self.topic, partition).begin)
        self.positions = dict(starts)
        return starts

    async def read_again(self, partition: int, offset: int) -> None:
        await asyncio.sleep(0)
        if partition in self.positions:
            self.positions[partition] = offset
            over(self.fetching)

    def highwater_of(self, partition: int) -> int | None:
        return self.broker.log(self.topic, partition).end if partition in self.positions else None

    def last_poll_of(self, partition: int) -> int | None:
        return self.polled.get(partition)

    # ---- its life

    async def run(self) -> None:
        """Until it is stopped; then a last checkpoint."""
        tasks = [asyncio.create_task(work) for work in (self._fetch(), self._apply(), self._tick(), self._commit())]
        while not self.stopping:
            self.generation, self.mine = await self.group.join(self.member)
            self.positions, self.polled = {}, {}
            self.stage.assigned(self, self.generation)
            self.flow.set()
            self.uncommitted.set()
            over(self.fetching)
            if not self.stopping:
                await self.group.settled(self.member)
            self.flow.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._last_checkpoint(), QUIESCE_TIMEOUT + COMMIT_TIMEOUT)
            self.stage.dropped()
            self.positions = {}
        self.group.leave(self.member)
        for task in tasks:
            task.cancel()

    def stop(self) -> None:
        """As SIGTERM."""
        self.stopping = True
        over(self.member.called)

    async def _last_checkpoint(self) -> None:
        await asyncio.wait_for(self.stage.quiesce(), QUIESCE_TIMEOUT)
        await self._checkpoint()

    async def _fetch(self) -> None:
        while True:
            await self.flow.wait()
            if not self.stage.ready:
                await asyncio.sleep(0.1)
                continue
            await asyncio.sleep(self.broker.delay())
            brought = False
            for partition in self.broker.rng.sample(list(self.positions), len(self.positions)):
                brought |= await self._fetch_one(partition)
            if not brought:
                self.fetching = self.broker.arrival(self.topic, POLL if self.broker.down else self.poll)
                await self.fetching

    async def _fetch_one(self, partition: int) -> bool:
        position, generation = self.positions.get(partition), self.generation
        if position is None or self.broker.down:
            return False
        batch = self.broker.log(self.topic, partition).read(position, self.broker.rng.choice((1, 3, 10, 30)))
        self.polled[partition] = self.broker.now
        if not batch:
            return False
        self.positions[partition] = batch.end
        drops = self.broker.rng.random() < self.broker.weather.drop
        if drops and self.dropped[partition, batch.start] < HOLE_READS - 1:
            self.dropped[partition, batch.start] += 1
            return True
        await self.queue.put((partition, batch, generation))
        return True

    async def _apply(self) -> None:
        while True:
            partition, batch, generation = await self.queue.get()
            try:
                await self.stage.process(partition, batch, generation)
                self.uncommitted.set()
            except Exception as error:  # the batch is read again: the stage sees the hole
                self.broker.trace(f"{self.member.name}: a batch of {self.topic}/{partition} failed: {error!r:.200}")
                await asyncio.sleep(PAUSE)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.broker.weather.pace * self.rare)
            await self.stage.tick()

    async def _commit(self) -> None:
        while True:
            await self.uncommitted.wait()
            await asyncio.sleep(self.checkpoint)
            if self.flow.is_set() and self.stage.ready:
                await self._checkpoint()
                if all(self.group.committed.get(partition) == end for partition, end in self.stage.next.items()):
                    self.uncommitted.clear()

    async def _checkpoint(self) -> None:
        began, generation = self.broker.loop.now, self.generation
        found = {partition: self.stage.committable(partition) for partition in list(self.stage.next)}
        if not await self.stage.flush():
            return
        known = self.group.committed
        offsets = {
            partition: offset for partition, offset in found.items() if offset not in (None, known.get(partition))
        }
        if not offsets:
            return
        try:
            await self.broker.answer()
            self.group.commit(self.member, generation, offsets)
        except KafkaError as error:
            self.broker.trace(f"{self.member.name}: could not commit: {error!r}")
            return
        self.stage.committed(self.broker.loop.now - began)
