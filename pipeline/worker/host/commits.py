"""A stage under Faust: which batches its work gets, and which offsets are safe to commit, also around a rebalance.

Faust hosts it: `BatchConsumer` calls the hooks, the stage's agent calls `process`. What the stage does with records
is its `Work`: assembly, metrics, or a sink. Each of these rules was learnt from lost turns:

* never apply records past a hole: Faust drops fetched batches around a rebalance, so they are read again;
* never apply a batch of an earlier generation: its partition may be another worker's by now;
* commit an offset only if `Work` needs nothing before it, and after its flush.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Final

from pipeline.observability import metrics as m
from pipeline.observability.audit import FAILED, REMOVED, Entry
from pipeline.observability.metrics import Metrics
from pipeline.worker.host.work import Batch, Source, Work
from turnmill.clock import now_ms
from turnmill.ending import ended

log = logging.getLogger(__name__)

HOLE_READS: Final = 3  # records read again may be dropped again


def _nobody(_: Entry) -> None:
    """Keep no entry."""


class Stage:
    """The bridge between Faust's consumer and a `Work`; each Faust app has one."""

    def __init__(self, name: str, topic: str, work: Work, metrics: Metrics) -> None:
        self.name = name
        self.topic = topic
        self.work = work
        self.metrics = metrics
        self.removed: Callable[[Entry], None] = _nobody  # keeps an entry of the audit log
        self._source: Source | None = None  # until the first partitions are assigned
        self.generation = 0
        self.next: dict[int, int] = {}  # partition -> the next offset to read
        self._handed: dict[int, int] = {}  # partition -> the offset after the last record given to `work`
        self.last_progress = time.monotonic()
        self.last_commit = time.monotonic()
        self.last_answer = time.monotonic()  # when the broker last answered
        self._newest_poll = 0
        self._applied: dict[int, int] = {}  # as `next`, less waiting records, at the last check of progress
        self._holes: dict[int, tuple[int, int]] = {}  # partition -> first offset after a hole, how often seen
        self._idle: dict[int, tuple[float, int | None]] = {}  # partition -> time of the last count, and its poll
        self._busy = asyncio.Lock()
        self._ready = asyncio.Event()
        self._accept = False
        self._building: set[asyncio.Task[None]] = set()  # the newest, and cancelled ones that have not ended
        self._assignments = 0  # number of changes; the state built for an earlier assignment is discarded

    # ---- called by the consumer

    def assigned(self, source: Source, generation: int) -> None:
        """Take over the assigned partitions of `source`, which returns them with the offsets to read from.

        Records wait until these are known and the state is built, however long it takes.
        """
        self._source, self.generation = source, generation
        self.metrics.add(m.REBALANCES)
        self._ready.clear()
        self._assignments += 1
        earlier = tuple(self._building)
        for task in earlier:
            task.cancel()
        building = asyncio.create_task(self._build(source, earlier, self._assignments), name=f"{self.name} state")
        self._building.add(building)
        building.add_done_callback(self._building.discard)

    async def _build(self, source: Source, earlier: Collection[asyncio.Task[None]], assignment: int) -> None:
        began = time.monotonic()
        # Wait for them, since a cancellation can be lost: two at once would mix the state of two assignments.
        for task in earlier:
            while not await ended(task):
                pass
        delay = 0.2
        while assignment == self._assignments:
            try:
                starts = dict(await source.seek_to_starts())
                await self.work.assign(starts)
                break
            except Exception:  # the broker or the store is away; waiting loses nothing
                log.exception("%s: could not take over its partitions; again in %.1f s", self.name, delay)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 10)
        if assignment != self._assignments:
            return
        self.next, self._handed = starts, dict(starts)
        self._holes.clear()
        self._idle.clear()
        self._accept = True
        self.last_progress = self.last_answer = time.monotonic()
        self._ready.set()
        took = self.last_progress - began
        self.metrics.observe(m.TAKEOVER_SECONDS, took, role=self.name)
        log.info("%s: %d partitions of %s, taken over in %.1f s", self.name, len(starts), self.topic, took)

    def dropped(self) -> None:
        """Drop all partitions, which were revoked."""
        self._assignments += 1
        for task in self._building:
            task.cancel()
        self._accept = False
        self._ready.clear()
        self.next, self._handed = {}, {}
        self.work.drop()

    def committable(self, partition: int) -> int | None:
        """Return the offset up to which the partition may be committed, once `flush` has succeeded."""
        floor = self.work.floor(partition)
        return self.next[partition] if floor is not None and floor == self._handed.get(partition) else floor

    async def flush(self) -> bool:
        """See `Work.flush`."""
        return await self.work.flush()

    def committed(self, seconds: float) -> None:
        """Note a checkpoint, and how long it took."""
        self.last_commit = time.monotonic()
        self.metrics.add(m.COMMITS)
        self.metrics.observe(m.CHECKPOINT_SECONDS, seconds)

    async def quiesce(self) -> None:
        """Stop taking records, and return once none is being processed."""
        self._accept = False
        await self.work.interrupt()
        async with self._busy:
            pass

    # ---- called by the agent and the timer

    async def process(self, partition: int, batch: Batch, generation: int) -> None:
        """Process a batch of a partition, fetched in this generation of the group."""
        await self._ready.wait()
        async with self._busy:
            if not self._accept or not self._ours(partition, generation):
                return
            expected = self.next[partition]
            highwater = self._source.highwater_of(partition) if self._source is not None else None
            if batch.start < expected and highwater is not None and highwater < expected:
                self._begin_anew(partition)
                return
            behind, seen = self._holes.get(partition, (0, 0))
            seen = seen + 1 if batch.start == behind else 1
            if batch.start > expected and seen <= HOLE_READS:
                self._holes[partition] = (batch.start, seen)
                await self._read_again(partition, expected)
                return
            self._holes.pop(partition, None)
            if batch.start > expected:  # the same hole each time
                self._note_removed(partition, expected, batch.start)
                expected = self.next[partition] = batch.start
            try:
                if batch.records:
                    await self.work.handle(partition, batch.records)
            except Exception:  # if this was the last batch, no later one would reveal the hole
                if self._ours(partition, generation):
                    await self._read_again(partition, expected)
                raise
            if self._ours(partition, generation):  # the partition may have been revoked meanwhile
                self.next[partition] = max(expected, batch.end)
                if batch.records:
                    self._handed[partition] = max(self._handed[partition], batch.records[-1].offset + 1)
            self.last_answer = time.monotonic()

    def _note_removed(self, partition: int, first: int, end: int) -> None:
        """Note that retention removed the records from `first` to before `end`, which nobody had read."""
        what = f"{self.topic}/{partition}@{first}-{end - 1}"
        self.metrics.add(m.RECORDS_REMOVED, end - first, role=self.name, topic=self.topic)
        log.error("%s: %d records were removed before they were read: %s", self.name, end - first, what)
        self.removed(Entry(now_ms(), f"worker, role {self.name}", "", "", REMOVED, what, None, FAILED))

    def _begin_anew(self, partition: int) -> None:
        """Read a topic from its beginning that was deleted and made again: its offsets are others."""
        log.error("%s: %s was made anew: it is read from its beginning", self.name, f"{self.topic}/{partition}")
        source = self._source
        self.dropped()
        if source is not None:
            self.assigned(source, self.generation)

    def _ours(self, partition: int, generation: int) -> bool:
        return generation == self.generation and partition in self.next

    async def _read_again(self, partition: int, offset: int) -> None:
        log.info("%s: read %s/%d again from %d", self.name, self.topic, partition, offset)
        if self._source is not None:
            await self._source.read_again(partition, offset)

    async def tick(self) -> None:
        """Let time pass for each partition; skipped while a rebalance is under way."""
        if not self._ready.is_set():
            return
        self._listen()
        self._look_for_progress()
        async with self._busy:
            for partition in list(self.next) if self._accept else ():
                if partition in self.next:
                    await self._tick(partition)
        try:
            await self.work.flush()
        except Exception:  # as below
            log.exception("%s: no flush now", self.name)

    async def _tick(self, partition: int) -> None:
        try:
            await self.work.tick(partition, self._idle_ms(partition))
        except Exception:  # the producer has a problem; unsent results wait for the next time
            log.exception("%s: no deadlines of %s/%d now", self.name, self.topic, partition)

    def _listen(self) -> None:
        """Note whether the broker has answered since the last time, or has not been asked."""
        newest = max((self._last_poll(partition) or 0 for partition in self.next), default=0)
        if newest > self._newest_poll or not self.next or self._busy.locked():
            self.last_answer = time.monotonic()
        self._newest_poll = max(newest, self._newest_poll)

    def _look_for_progress(self) -> None:
        """Note whether records were applied since the last time, or none are left to apply."""
        applied = {partition: offset - self.work.behind(partition) for partition, offset in self.next.items()}
        if applied != self._applied or not any(self.lags().values()):
            self.last_progress = time.monotonic()
        self._applied = applied

    def _idle_ms(self, partition: int) -> int:
        """Return the time since the last call for which nothing was left to read.

        Only an answer of the broker counts: a worker that was suspended for a while has to ask first.
        """
        if self.lag(partition) != 0:
            self._idle.pop(partition, None)
            return 0
        now = time.monotonic()
        polled = self._last_poll(partition)
        since, before = self._idle.setdefault(partition, (now, polled))
        if polled == before:
            return 0
        self._idle[partition] = (now, polled)
        return int((now - since) * 1000)

    def _last_poll(self, partition: int) -> int | None:
        return self._source.last_poll_of(partition) if self._source is not None else None

    def lag(self, partition: int) -> int | None:
        """Return the number of offsets not applied yet; None if the broker has not reported the end."""
        highwater = self._source.highwater_of(partition) if self._source is not None else None
        if highwater is None:
            return None
        return max(0, highwater - self.next.get(partition, 0)) + self.work.behind(partition)

    def lags(self) -> dict[int, int | None]:
        """Return the lag of each assigned partition."""
        return {partition: self.lag(partition) for partition in self.next}

    @property
    def ready(self) -> bool:
        """True if records are being taken."""
        return self._accept and self._ready.is_set()
