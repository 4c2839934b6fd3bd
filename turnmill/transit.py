"""The records between a publisher and the broker, and how their sending goes. No I/O.

A record is at each moment in one of these places, and they are sent in this order:

    flying     the producer has it (and it is on disk as well, if it has waited for long)
    waiting    in memory, not yet the producer's
    spool      on disk, not yet read back
    overflow   in memory, because the disk is full as well

Without a spool there are only the first two, and the first failure is the last.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from turnmill.counts import Counts
from turnmill.envelope import Headers
from turnmill.spool_segment import RecordEnd

log = logging.getLogger("turnmill.delivery")


@dataclass(slots=True, eq=False)
class Parcel:
    """One record in memory. `since`: the loop's time when it came. `place`: in the spool, if it is there as well."""

    key: bytes
    value: bytes
    headers: Headers | None
    since: float
    place: RecordEnd | None = None
    future: asyncio.Future[Any] | None = None
    settled: bool = False  # confirmed, or refused
    alone: bool = False  # a batch with it was refused: it is sent by itself, which shows whether it was the reason


class Transit:
    """The state that sending and spooling share: the records in memory, the counts, and what is wrong.

    `more` is set when there is something to send, `changed` when a record was settled or nothing will be any more.
    """

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.flying: dict[Parcel, None] = {}  # in the order in which they were handed over
        self.waiting: deque[Parcel] = deque()
        self.overflow: deque[Parcel] = deque()
        self.on_disk: deque[Parcel] = deque()  # of those in memory, in the spool's order
        self.bytes = 0  # in memory
        self.trouble: str | None = None  # why nothing is confirmed just now
        self.failure: str | None = None  # why nothing will be confirmed any more
        self.connected = asyncio.Event()  # for the first time
        self.more = asyncio.Event()
        self.changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def parcel(self, key: bytes, value: bytes, headers: Headers | None, place: RecordEnd | None = None) -> Parcel:
        """Return a record that is in memory from now on; its caller puts it into one of the places."""
        self.bytes += len(value)
        return Parcel(key, value, headers, self._loop.time(), place)

    def memory_only(self) -> Iterator[Parcel]:
        """Yield the records that are in memory and not on disk, in the order in which they are sent."""
        return (parcel for parcel in chain(self.flying, self.waiting, self.overflow) if parcel.place is None)

    def oldest(self) -> Parcel | None:
        """Return the first of them."""
        return next(self.memory_only(), None)

    def settle(self, parcel: Parcel) -> list[RecordEnd]:
        """Settle a record that the broker has, or never takes.

        Return the places of the spool that are done, in order.
        """
        parcel.settled = True
        self.flying.pop(parcel, None)
        self.bytes -= len(parcel.value)
        places = []
        while self.on_disk and self.on_disk[0].settled:
            place = self.on_disk.popleft().place
            assert place is not None  # all of `on_disk` have one
            places.append(place)
        return places

    def land(self) -> None:
        """Take back what a producer that was given up had in flight: the next one sends it first."""
        self.waiting.extendleft(reversed(self.flying))
        self.flying.clear()
        for parcel in self.waiting:
            parcel.future = None

    def troubled(self, why: str) -> None:
        """Nothing is confirmed just now; a new reason is logged."""
        if self.trouble != why:
            log.warning("nothing reaches the broker: %s", why)
        self.trouble = why

    def fail(self, why: str) -> None:
        """Nothing will be confirmed any more; the first reason stays."""
        self.failure = self.failure or why
        self.changed.set()

    async def next_change(self) -> None:
        """Wait until `changed` is set again."""
        self.changed.clear()
        await self.changed.wait()
