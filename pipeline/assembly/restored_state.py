"""The state topic's entries of a partition, collected record by record as the topic is read.

At a restart, a partition has tens of thousands of marks of closed runs, and most of the topic is marks that have been
removed. Each is packed as it comes, so that only the packed marks take memory.
"""

import sys
from collections.abc import Mapping

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.marks import Marks
from pipeline.assembly.parking import OutlinedSegment, outlined
from pipeline.assembly.spilled_run import RESTORED, SpilledRun
from topics import state
from topics.state import RunKey, Segment

Segments = dict[str, Segment | OutlinedSegment]  # by their keys on the state topic


class RestoredState:
    """`segments` of open and reopenable runs, by their keys; `marks` of closed runs; `now`: newest broker time (ms).

    If the segments take more than `most` bytes, only outlines are kept of further ones, for which `dialects` are used.
    """

    def __init__(self, dialects: Mapping[str, Dialect] | None = None, most: int = sys.maxsize) -> None:
        self.dialects = dialects or {}
        self.segments: dict[bytes, tuple[RunKey, Segment | OutlinedSegment]] = {}
        self.marks = Marks()
        self.now = 0
        self.room = most

    def take(self, key: bytes, value: bytes | None) -> None:
        """Take a record, in the topic's order; the value None removes the key's entry. Raises InvalidRecord."""
        if value is None:
            if not self._remove(key) and (mark := state.mark_of(key)) is not None:
                self.marks.remove_entry(*mark)
            return
        run, entry = state.decode(key, value)
        self.now = max(self.now, entry.at)
        if isinstance(entry, Segment):
            self._remove(key)
            self.room -= RESTORED + entry.size
            if self.room < 0:
                self.room += entry.size
                self.segments[key] = run, outlined(entry, self.dialects)
            else:
                self.segments[key] = run, entry
        elif (known := self.marks.get(run)) is None or entry.rank > known.rank:
            self.marks.add(run, entry)

    def _remove(self, key: bytes) -> bool:
        if key not in self.segments:
            return False
        _, entry = self.segments.pop(key)
        self.room += RESTORED + (entry.size if isinstance(entry, Segment) else 0)
        return True

    def by_run(self) -> dict[RunKey, Segments]:
        """Return the segments of each run."""
        segments: dict[RunKey, Segments] = {}
        for key, (run, segment) in self.segments.items():
            segments.setdefault(run, {})[key.decode()] = segment
        return segments

    def runs(
        self, by_run: Mapping[RunKey, Segments]
    ) -> tuple[dict[RunKey, SpilledRun], dict[RunKey, SpilledRun], list[RunKey]]:
        """Return (open runs, reopenable ones, complete ones whose worker died before it removed their segments).

        `by_run` is that of the method. The mark of an open run is removed, since the run was reopened after it.
        """
        spilled: dict[RunKey, SpilledRun] = {}
        reopenable: dict[RunKey, SpilledRun] = {}
        complete: list[RunKey] = []
        for key, of_run in by_run.items():
            segments = list(of_run.values())
            closed = self.marks.get(key)
            if closed is not None and (closed.complete or closed.cut):
                complete.append(key)
                continue
            if closed is None or any(segment.last_offset > closed.offset for segment in segments):
                revision, since = (0, -1) if closed is None else (closed.revision + 1, closed.offset)
                spilled[key] = SpilledRun.restored(segments, self.dialects, since, revision, is_open=True)
                self.marks.remove(key)
            else:
                reopenable[key] = SpilledRun.restored(
                    segments, self.dialects, closed.offset, closed.revision, is_open=False
                )
        return spilled, reopenable, complete
