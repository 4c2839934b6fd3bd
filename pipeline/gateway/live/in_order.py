"""The frames of one run in the order of their seq, whatever order they arrive in. Pure."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, NamedTuple

OVERHEAD: Final = 300  # bytes of memory that a frame takes in addition to its data


class Frame(NamedTuple):
    """One event as it is sent; `last`: events of its kind usually end a run."""

    seq: int
    data: bytes
    last: bool = False


class InOrder:
    """Returns the frames in the order of their seq, from `seq` on.

    Frames that come too early wait, in at most `most` bytes. Beyond that, missing ones are skipped: a reader can't wait
    for ever for frames that may never come.
    """

    def __init__(self, seq: int, most: int) -> None:
        self._next = seq
        self._most = most
        self._waiting: list[Frame] = []  # a heap
        self.size = 0  # bytes in memory

    def take(self, frame: Frame) -> list[Frame]:
        """Return the frames that are due now; each seq is returned once."""
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
        """Return all waiting frames, since no more will come."""
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
