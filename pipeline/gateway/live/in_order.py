"""The frames of one run in the order of their seq, whatever order they come in. Pure."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, NamedTuple

OVERHEAD: Final = 300  # bytes of memory that a frame takes beside its own


class Frame(NamedTuple):
    """One event as it is sent; `last`: it is one that usually ends its run."""

    seq: int
    data: bytes
    last: bool = False


class InOrder:
    """Gives each frame behind the one before it, from `seq` on.

    What comes too early waits, at most `most` bytes of it; then what is missing is passed over, since a reader can't
    wait for ever for what may never come.
    """

    def __init__(self, seq: int, most: int) -> None:
        self._next = seq
        self._most = most
        self._waiting: list[Frame] = []  # a heap
        self.size = 0  # bytes in memory

    def take(self, frame: Frame) -> list[Frame]:
        """Return the frames that are due now; each seq comes once."""
        if frame.seq < self._next:
            return []
        heappush(self._waiting, frame)
        self.size += len(frame.data) + OVERHEAD
        found = self._ready()
        while self.size > self._most:
            self._next = self._waiting[0].seq
            found += self._ready()
        return found

    def rest(self) -> list[Frame]:
        """Return all that still wait: nothing more will come."""
        found: list[Frame] = []
        while self._waiting:
            self._next = self._waiting[0].seq
            found += self._ready()
        return found

    def _ready(self) -> list[Frame]:
        found: list[Frame] = []
        while self._waiting and self._waiting[0].seq <= self._next:
            frame = heappop(self._waiting)
            self.size -= len(frame.data) + OVERHEAD
            if frame.seq == self._next:
                found.append(frame)
                self._next += 1
        return found
