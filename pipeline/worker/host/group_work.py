"""The `Work` of a stage whose records are applied in groups: metrics, and the store.

While one group is applied, batches of all partitions gather and form the next group. So a store has a transaction for
all records that came meanwhile, not one per partition. `apply` is called with a group until it succeeds; its offsets
may be committed right after. While it fails for a transient reason, everything waits, the worker stays in its consumer
group, and nothing is skipped.
"""

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
from pipeline.worker.host.work import Records, Retry, Work

log = logging.getLogger(__name__)

GROUP_RECORDS: Final = 500  # records; a transaction must be shorter than the time for which a rebalance waits for it
GROUP_BYTES: Final = 16_777_216  # of a group, and of waiting records; a larger record is a group of its own
RETRY_DELAY: Final = 0.5  # seconds before a retry of a group that failed for another reason than the store

Group = Sequence[tuple[int, Records]]  # (partition, records); a partition may occur more than once


@dataclass(slots=True)
class Assignment:
    """One assignment of partitions. `applied` and `taken`: partition -> the offset after the last record."""

    retry: Retry
    applied: dict[int, int] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)
    waiting: deque[tuple[int, Records]] = field(default_factory=deque)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    writing: asyncio.Task[None] | None = None

    def group(self) -> Group:
        """Take the oldest waiting records, at most GROUP_RECORDS and GROUP_BYTES, in the order of each partition."""
        group: list[tuple[int, Records]] = []
        count = size = 0
        while self.waiting and count < GROUP_RECORDS:
            partition, records = self.waiting.popleft()
            sizes = list(accumulate((len(record.value or b"") for record in records), initial=size))[1:]
            taken = max(bisect_right(sizes, GROUP_BYTES), not group)
            some, rest = records[: min(taken, GROUP_RECORDS - count)], records[min(taken, GROUP_RECORDS - count) :]
            if rest:
                self.waiting.appendleft((partition, rest))
            if not some:
                break
            group.append((partition, some))
            count, size = count + len(some), sizes[len(some) - 1]
        return group

    def give_up(self) -> None:
        """Stop all waiting; a group under way may end."""
        self.retry.given_up.set()
        self.room.set()

    def full(self) -> bool:
        """Return True if as many records wait as one group takes."""
        if sum(len(records) for _, records in self.waiting) >= GROUP_RECORDS:
            return True
        return sum(len(record.value or b"") for _, records in self.waiting for record in records) >= GROUP_BYTES


class GroupWork(Work):
    """The work of applying groups; `apply` takes a group of at most GROUP_RECORDS."""

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
        """Take partitions with their offsets; there is no other state."""
        self.mine = self._nothing()
        self.mine.applied, self.mine.taken = dict(starts), dict(starts)

    def drop(self) -> None:
        """Drop waiting records, now another worker's; a group under way may end, but no longer counts."""
        self.mine.give_up()
        self.mine = self._nothing()

    async def interrupt(self) -> None:
        """Give up records that wait, also for a retry; the next owner of the partition reads them again."""
        mine = self.mine
        mine.give_up()
        if mine.writing is not None:
            await asyncio.wait([mine.writing])

    async def handle(self, partition: int, records: Records) -> None:
        """Add a batch to the waiting records; return when there is room for the next batch."""
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
        except Exception:  # retry with the same records: none may be skipped
            log.exception("%s: a group of %d records failed", self.name, sum(len(some) for _, some in group))
            await asyncio.sleep(RETRY_DELAY)
            return False

    def behind(self, partition: int) -> int:
        """Return the number of offsets that were handed in, but are not applied yet."""
        mine = self.mine
        return mine.taken.get(partition, 0) - mine.applied.get(partition, 0)

    def floor(self, partition: int) -> int | None:
        """Return the first offset that is not applied yet."""
        return self.mine.applied.get(partition)

    async def tick(self, partition: int, idle_ms: int) -> None:
        """Do nothing: the work does not depend on time."""
