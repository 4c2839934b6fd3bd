"""The `Work` of a stage whose records are applied in groups: metrics, and the store.

While one group is applied, batches of all partitions gather; together they are the next one. So a store has one
transaction for what came meanwhile, not one for each partition. `apply` is called with a group until it succeeds; its
offsets may be committed right after. While it fails for a reason that may pass, everything stands still, the group
membership stays, and nothing is skipped.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Final

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.worker.retry import Retry
from pipeline.worker.work import Records

log = logging.getLogger(__name__)

AT_ONCE: Final = 500  # records: one transaction must not outlast the time that a rebalance waits for it
MOST: Final = 16_777_216  # bytes of a group, and of what waits; a larger record is a group of its own
PAUSE: Final = 0.5  # seconds before a group is tried again that failed for no reason of the store's

Group = Sequence[tuple[int, Records]]  # of partitions by number; one may come more than once


@dataclass(slots=True)
class Assignment:
    """One assignment of partitions. `applied` and `taken`: partition -> the offset behind the last record."""

    retry: Retry
    applied: dict[int, int] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)
    waiting: deque[tuple[int, Records]] = field(default_factory=deque)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    writing: asyncio.Task[None] | None = None

    def group(self) -> Group:
        """Take the oldest records, AT_ONCE of them and MOST bytes; those of a partition stay in order."""
        group: list[tuple[int, Records]] = []
        count = size = 0
        while self.waiting and count < AT_ONCE:
            partition, records = self.waiting.popleft()
            sizes = list(accumulate((len(record.value or b"") for record in records), initial=size))[1:]
            taken = max(bisect_right(sizes, MOST), not group)
            some, rest = records[: min(taken, AT_ONCE - count)], records[min(taken, AT_ONCE - count) :]
            if rest:
                self.waiting.appendleft((partition, rest))
            if not some:
                break
            group.append((partition, some))
            count, size = count + len(some), sizes[len(some) - 1]
        return group

    def give_up(self) -> None:
        """Wait for nothing any more; a group under way may end."""
        self.retry.given_up.set()
        self.room.set()

    def full(self) -> bool:
        """Return True if as much waits as one group takes."""
        if sum(len(records) for _, records in self.waiting) >= AT_ONCE:
            return True
        return sum(len(record.value or b"") for _, records in self.waiting for record in records) >= MOST


class GroupWork:
    """`apply` takes a group of at most AT_ONCE records."""

    def __init__(self, name: str, apply: Callable[[Group], Awaitable[None]], metrics: Metrics) -> None:
        self.name = name
        self.apply = apply
        self.metrics = metrics
        self.mine = self._nothing()

    def _nothing(self) -> Assignment:
        return Assignment(Retry(self.name, partial(self.metrics.add, m.STORE_RETRIES)))

    @property
    def trouble(self) -> str | None:
        """See `Work.trouble`."""
        return self.mine.retry.trouble

    async def assign(self, starts: Mapping[int, int]) -> None:
        """No state but the offsets."""
        self.mine = self._nothing()
        self.mine.applied, self.mine.taken = dict(starts), dict(starts)

    def drop(self) -> None:
        """Forget waiting records, which are another worker's now; a group under way may end, and counts no more."""
        self.mine.give_up()
        self.mine = self._nothing()

    async def interrupt(self) -> None:
        """Give up what waits, or waits to be tried again; it is read again by whoever has the partition next."""
        mine = self.mine
        mine.give_up()
        if mine.writing is not None:
            await asyncio.wait([mine.writing])

    async def handle(self, partition: int, records: Records) -> None:
        """Put a batch to what waits; returns when there is room for the next one."""
        mine = self.mine
        todo = [record for record in records if record.offset >= mine.taken[partition]]
        if not todo or mine.retry.given_up.is_set():
            return
        mine.taken[partition] = todo[-1].offset + 1
        mine.waiting.append((partition, todo))
        if mine.writing is None or mine.writing.done():
            mine.writing = asyncio.create_task(self._write(mine))
        while mine.full() and not mine.retry.given_up.is_set():
            mine.room.clear()
            await mine.room.wait()

    async def _write(self, mine: Assignment) -> None:
        while mine.waiting and not mine.retry.given_up.is_set():
            group = mine.group()
            while not await self._applied(mine, group):
                if mine.retry.given_up.is_set():
                    return
            for partition, some in group:
                mine.applied[partition] = some[-1].offset + 1
            mine.room.set()

    async def _applied(self, mine: Assignment, group: Group) -> bool:
        try:
            return await mine.retry.until_done(partial(self.apply, group))
        except Exception:  # the same records once more: none may be skipped
            log.exception("%s: a group of %d records failed", self.name, sum(len(some) for _, some in group))
            await asyncio.sleep(PAUSE)
            return False

    def behind(self, partition: int) -> int:
        """Return the number of records that were handed in and are not applied yet."""
        mine = self.mine
        return mine.taken.get(partition, 0) - mine.applied.get(partition, 0)

    def floor(self, partition: int) -> int | None:
        """All before it is applied."""
        return self.mine.applied.get(partition)

    async def flush(self) -> bool:
        """Return True: what was applied is safe already."""
        return True

    async def tick(self, partition: int, idle_ms: int) -> None:
        """Nothing depends on time."""
