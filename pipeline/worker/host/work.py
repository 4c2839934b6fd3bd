"""The interfaces of a stage: batches of records, their source, and the work that handles them; and its retries.

Stores come back, and meanwhile the records to store are safe on the topic: so their calls are retried until success.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from aiokafka import ConsumerRecord

from pipeline.stores.database.errors import StoreError

log = logging.getLogger(__name__)

FIRST_DELAY: Final = 0.2
MAX_DELAY: Final = 10.0

Records = Sequence[ConsumerRecord]


@dataclass(frozen=True, slots=True)
class Batch:
    """All records of a partition from the offset `start` up to `end`.

    There may be fewer records than offsets, or none: a transaction ends with a marker, and compaction removes some.
    """

    records: Records
    start: int
    end: int

    @classmethod
    def of(cls, records: Records) -> Batch:
        """Return a batch of at least one record that ends after the last."""
        return cls(records, records[0].offset, records[-1].offset + 1)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.records)

    def __bool__(self) -> bool:
        """Return True if reading has moved on."""
        return self.end > self.start


class Work(Protocol):
    """The work of a stage with its partitions, given by number. Roles inherit what they need not do."""

    @property
    def trouble(self) -> str | None:
        """Why it waits, for instance for a store that is away; None while all is well."""

    async def assign(self, starts: Mapping[int, int]) -> None:
        """Take partitions with the offset from which each is read; build their state before records come."""

    def drop(self) -> None:
        """Forget all partitions: they may belong to another worker by now."""

    async def interrupt(self) -> None:
        """Stop waiting in `handle`, since the partitions are about to be revoked.

        Returns when no work that `handle` has left to be done is under way.
        """

    async def handle(self, partition: int, records: Records) -> None:
        """Apply records. If it raises, the same records are handed in again."""

    def behind(self, partition: int) -> int:
        """Return the number of offsets that were handed in, but whose records are not applied yet."""
        return 0

    def floor(self, partition: int) -> int | None:
        """Return the first offset that is still needed, None if the partition is not assigned."""

    async def flush(self) -> bool:
        """Make everything safe on which the floors returned before depend; return False to prevent the commit."""
        return True

    async def tick(self, partition: int, idle_ms: int) -> None:
        """Let time pass, about once a second; `idle_ms`: additional time in which nothing was left to read."""


class Source(Protocol):
    """The consumer that a stage's batches come from; partitions are given by number."""

    async def seek_to_starts(self) -> Mapping[int, int]:
        """Seek to where each assigned partition must be read from, and return the offsets by partition."""

    async def read_again(self, partition: int, offset: int) -> None:
        """Seek back to an offset."""

    def highwater_of(self, partition: int) -> int | None:
        """Return the offset after the partition's last record, as of the last poll.

        None if the broker has not reported it.
        """

    def last_poll_of(self, partition: int) -> int | None:
        """Return when the broker last answered about the partition, epoch ms; None if it has not."""


class Retry:
    """Repeats a call. `trouble`: why it does not succeed, None while all is well; `given_up` ends the waiting."""

    def __init__(self, name: str, failed: Callable[[], None]) -> None:
        """`failed` is called at each failure."""
        self.name = name
        self.failed = failed
        self.trouble: str | None = None
        self.given_up = asyncio.Event()

    async def until_done(self, call: Callable[[], Awaitable[None]]) -> bool:
        """Repeat `call` while it raises StoreError, with back-off and jitter. Return False once `given_up` is set."""
        delay = FIRST_DELAY
        while not self.given_up.is_set():
            try:
                await call()
            except StoreError as error:  # skipping is no option: the batch waits until the store works again
                self.failed()
                if str(error) != self.trouble:
                    log.warning("%s: stands still until this passes: %s", self.name, error)
                self.trouble = str(error)
                try:
                    await asyncio.wait_for(self.given_up.wait(), delay * random.uniform(0.5, 1.5))  # noqa: S311  # jitter
                except TimeoutError:
                    delay = min(delay * 2, MAX_DELAY)
                continue
            if self.trouble is not None:
                log.info("%s: goes on", self.name)
                self.trouble = None
            return True
        return False
