"""What the state topic holds of a partition, taken record by record as it is read.

A restart has marks of closed runs by the ten thousand for each partition, and most of the topic is marks that were
removed since. Each is packed as it comes: nothing is held of it but what will be remembered.
"""

from __future__ import annotations

from pipeline.assembly.marks import Marks
from pipeline.assembly.spilled_run import SpilledRun, stored_bytes
from topics import state
from topics.state import Closed, RunKey, Segment


class RestoredState:
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

    def runs(self) -> tuple[dict[RunKey, SpilledRun], dict[RunKey, SpilledRun], list[RunKey]]:
        """-> (open runs, reopenable ones, complete ones whose worker died before it removed their segments).

        The mark of a run that is open goes: it was reopened since.
        """
        spilled: dict[RunKey, SpilledRun] = {}
        reopenable: dict[RunKey, SpilledRun] = {}
        complete: list[RunKey] = []
        for key, found in self.segments.items():
            segments = list(found.values())
            closed = self.marks.get(key)
            if closed is not None and closed.complete:
                complete.append(key)
                continue
            newer = [segment for segment in segments if closed is None or segment.last_offset > closed.offset]
            size = stored_bytes(segments)
            if newer:
                revision = 0 if closed is None else closed.revision + 1
                last_at, opened_at = max(s.at for s in newer), min(s.at for s in newer)
                spilled[key] = SpilledRun(segments, last_at, opened_at, revision, size)
                self.marks.remove(key)
            elif closed is not None:
                at = max(segment.at for segment in segments)
                reopenable[key] = SpilledRun(segments, at, at, closed.revision, size)
        return spilled, reopenable, complete

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
