"""The interfaces of a stage: batches of records, the source that they come from.

The work that is done with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiokafka import ConsumerRecord

Records = Sequence[ConsumerRecord]


@dataclass(frozen=True, slots=True)
class Batch:
    """All that a partition holds from the offset `start` up to `end`.

    That may be fewer records than offsets, or none: a transaction ends with a marker, and compaction takes some out.
    """

    records: Records
    start: int
    end: int

    @classmethod
    def of(cls, records: Records) -> Batch:
        """At least one record, and nothing else."""
        return cls(records, records[0].offset, records[-1].offset + 1)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.records)

    def __bool__(self) -> bool:
        """Return True if reading has moved on."""
        return self.end > self.start


class Work(Protocol):
    """The work of a stage with its partitions, given by number."""

    @property
    def trouble(self) -> str | None:
        """Why it stands still, waiting for something to come back; None while all is well."""

    async def assign(self, starts: Mapping[int, int]) -> None:
        """Partitions with the offset that each is read from; build their state before records come."""

    def drop(self) -> None:
        """Forget all partitions: they may belong to another worker by now."""

    async def interrupt(self) -> None:
        """Wait for nothing in `handle` any more: the partitions are about to go.

        Returns when nothing that `handle` has left to be done is under way.
        """

    async def handle(self, partition: int, records: Records) -> None:
        """Apply records. What raises is tried again: they are handed in once more."""

    def behind(self, partition: int) -> int:
        """Return how many offsets were handed in whose records `handle` has left to be applied."""

    def floor(self, partition: int) -> int | None:
        """Return the first offset that is still needed, None where the partition is not ours."""

    async def flush(self) -> bool:
        """Make safe all that the floors rely on that were asked for before; False: do not commit."""

    async def tick(self, partition: int, idle_ms: int) -> None:
        """About once a second; `idle_ms`: how much more time has passed in which there was nothing left to read."""


class Source(Protocol):
    """The consumer that a stage's batches come from; partitions are given by number."""

    async def seek_to_starts(self) -> Mapping[int, int]:
        """Go to where each assigned partition is to be read from. -> partition: offset."""

    async def read_again(self, partition: int, offset: int) -> None:
        """Go back to an offset."""

    def highwater_of(self, partition: int) -> int | None:
        """Return the offset behind the partition's last record, as of the last poll.

        None where the broker has not said.
        """

    def last_poll_of(self, partition: int) -> int | None:
        """Return when the broker last answered about the partition, epoch ms; None where it has not."""
