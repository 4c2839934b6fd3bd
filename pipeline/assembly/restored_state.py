"""What the state topic holds of a partition, taken record by record as it is read.

A restart has marks of closed runs by the ten thousand for each partition, and most of the topic is marks that were
removed since. Each is packed as it comes: nothing is held of it but what will be remembered.
"""

from __future__ import annotations

from pipeline.assembly.marks import Marks
from topics import state
from topics.state import Closed, RunKey, Segment


class Remembered:
    """`segments` of open and reopenable runs, by their keys; `marks` of closed runs; `now`: newest broker time (ms)."""

    def __init__(self) -> None:
        self.segments: dict[RunKey, dict[bytes, Segment]] = {}
        self.marks = Marks()
        self.now = 0

    def take(self, key: bytes, value: bytes | None) -> None:
        """One record, in the topic's order; None removes what the key stands for. Raises InvalidRecord."""
        if value is None:
            self._remove(key)
            return
        run, entry = state.decode(key, value)
        self.now = max(self.now, entry.at)
        if isinstance(entry, Segment):
            self.segments.setdefault(run, {})[key] = entry
        elif (known := self.marks.get(run)) is None or _rank(entry) > _rank(known):
            self.marks.add(run, entry)

    def _remove(self, key: bytes) -> None:
        run = state.run_of(key)
        found = self.segments.get(run, {})
        if found.pop(key, None) is not None and not found:
            del self.segments[run]
        closed = self.marks.get(run)
        if closed is not None and state.closed_key(run, closed).encode() == key:
            self.marks.remove(run)


def _rank(closed: Closed) -> tuple[bool, int, int]:
    """Of a run's marks the one that counts: complete is for good, else the run was closed again after it reopened."""
    return closed.complete, closed.revision, closed.offset
