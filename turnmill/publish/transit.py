"""The records between a publisher and the broker, and the state of sending them. No I/O.

A record is always in one of these places, and the places are sent in this order:

    flying     given to the producer (and on disk as well, if it has waited for long)
    waiting    in memory, not yet given to the producer
    spool      on disk, not yet read back
    overflow   in memory, because the disk is full as well

Without a spool there are only the first two places, and the first failure is final.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from turnmill.publish.counts import Counts
from turnmill.publish.spool_segment import RecordEnd
from turnmill.wire.envelope import Headers

log = logging.getLogger("turnmill.publish.delivery")


@dataclass(slots=True, eq=False)
class Parcel:
    """One record in memory. `since`: the loop's time when it came. `record_end`: in the spool, if it is there too."""

    key: bytes
    value: bytes
    headers: Headers | None
    since: float
    record_end: RecordEnd | None = None
    future: asyncio.Future[Any] | None = None
    settled: bool = False  # confirmed, or refused
    alone: bool = False  # its batch was refused: send it by itself, to find out whether it was the reason


class Transit:
    """The state that sending and spooling share: the records in memory, the counts, and what is wrong.

    `more` is set when there is something to send, `changed` when a record was settled or sending has failed for good.
    """

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.flying: dict[Parcel, None] = {}  # in the order in which the producer got them
        self.waiting: deque[Parcel] = deque()
        self.overflow: deque[Parcel] = deque()
        self.on_disk: deque[Parcel] = deque()  # records in memory that are also on disk, in the spool's order
        self.bytes = 0  # in memory
        self.trouble: str | None = None  # why nothing is confirmed at the moment
        self.failure: str | None = None  # why nothing will be confirmed any more
        self.connected = asyncio.Event()  # set by the first connection
        self.more = asyncio.Event()
        self.changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def parcel(self, key: bytes, value: bytes, headers: Headers | None, record_end: RecordEnd | None = None) -> Parcel:
        """Return a new record in memory, and count its bytes; the caller puts it into one of the places."""
        self.bytes += len(value)
        return Parcel(key, value, headers, self._loop.time(), record_end)

    def memory_only(self) -> Iterator[Parcel]:
        """Yield the records that are in memory and not on disk, in the order in which they are sent."""
        return (parcel for parcel in chain(self.flying, self.waiting, self.overflow) if parcel.record_end is None)

    def oldest(self) -> Parcel | None:
        """Return the first record that is only in memory; None if there is none."""
        return next(self.memory_only(), None)

    def settle(self, parcel: Parcel) -> list[RecordEnd]:
        """Remove a confirmed or refused record. Return the ends of records in the spool to acknowledge, in order."""
        parcel.settled = True
        self.flying.pop(parcel, None)
        self.bytes -= len(parcel.value)
        record_ends = []
        while self.on_disk and self.on_disk[0].settled:
            record_end = self.on_disk.popleft().record_end
            assert record_end is not None  # all of `on_disk` have it
            record_ends.append(record_end)
        return record_ends

    def land(self) -> None:
        """Take back the records that a failed producer had in flight: the next producer sends them first."""
        self.waiting.extendleft(reversed(self.flying))
        self.flying.clear()
        for parcel in self.waiting:
            parcel.future = None

    def troubled(self, why: str) -> None:
        """Note why nothing is confirmed at the moment; log it if the reason is new."""
        if self.trouble != why:
            log.warning("nothing reaches the broker: %s", why)
        self.trouble = why

    def fail(self, why: str) -> None:
        """Note why nothing will be confirmed any more; only the first reason is kept."""
        self.failure = self.failure or why
        self.changed.set()

    async def next_change(self) -> None:
        """Wait until `changed` is set again."""
        self.changed.clear()
        await self.changed.wait()
