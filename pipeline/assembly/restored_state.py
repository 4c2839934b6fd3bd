"""The state topic's entries of a partition, collected record by record as the topic is read.

At a restart, a partition has tens of thousands of marks of closed runs, and most of the topic is marks that have been
removed. Each is packed as it comes, so that only the packed marks take memory. So are outlines of segments: there may
be a million.
"""

import sys
from array import array
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.marks import Marks
from pipeline.assembly.parking import OutlinedSegment, outlined
from pipeline.assembly.spilled_run import RESTORED, SpilledRun
from pipeline.assembly.weight import unparsed_structure
from topics import json_text, state
from topics.state import Clocks, RunKey, Segment

Segments = dict[str, Segment | OutlinedSegment]  # by their keys on the state topic
Kept = tuple[RunKey, Segment, int] | bytes  # with its run, and its weight; or the outline of a segment, packed
TAKES: Final = 200  # bytes of memory of a packed outline, beyond its key and its value
OTHERS: Final = ("agent_id", "dialect", "ts")  # the names of its head that its run does not have


class RestoredState:
    """`segments` of open and reopenable runs, by their keys; `marks` of closed runs; `now`: newest broker time (ms).

    If the segments take more than `most` bytes, only outlines are kept of further ones, for which `dialects` are used.
    """

    def __init__(self, dialects: Mapping[str, Dialect] | None = None, most: int = sys.maxsize) -> None:
        self.dialects = dialects or {}
        self.segments: dict[bytes, Kept] = {}
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
            weight = _built_weight(entry, self.room)
            kept: Kept = (run, entry, weight) if weight <= self.room else _packed(run, outlined(entry, self.dialects))
            self.room -= _takes(key, kept)
            self.segments[key] = kept
        elif (known := self.marks.get(run)) is None or entry.rank > known.rank:
            self.marks.add(run, entry)

    def _remove(self, key: bytes) -> bool:
        if key not in self.segments:
            return False
        self.room += _takes(key, self.segments.pop(key))
        return True

    def by_run(self) -> Iterator[tuple[RunKey, Segments, int]]:
        """Yield the segments of each run, and their weight; forget them, so that never all are unpacked."""
        for _, names in groupby(sorted(self.segments, key=_name), key=_name):
            of_name: dict[RunKey, Segments] = {}  # of each tenant that has a run of this name
            weights: dict[RunKey, int] = {}
            for key in names:
                run, segment, weight = _unpacked(self.segments.pop(key))
                of_name.setdefault(run, {})[key.decode()] = segment
                weights[run] = weights.get(run, 0) + weight
            for run, segments in of_name.items():
                yield run, segments, weights[run]

    def spilled(self, key: RunKey, of_run: Segments, weight: int) -> tuple[SpilledRun, bool] | None:
        """Return a run, and whether it is open, or else reopenable; None if it is complete.

        Then its worker died before it removed the segments. The mark of an open run is removed, since the run was
        reopened after it.
        """
        segments = list(of_run.values())
        closed = self.marks.get(key)
        if closed is not None and (closed.complete or closed.cut):
            return None
        if closed is None or any(segment.last_offset > closed.offset for segment in segments):
            revision, since = (0, -1) if closed is None else (closed.revision + 1, closed.offset)
            self.marks.remove(key)
            return SpilledRun.restored(segments, self.dialects, since, revision, weight, is_open=True), True
        run = SpilledRun.restored(segments, self.dialects, closed.offset, closed.revision, weight, is_open=False)
        return run, False


def _name(key: bytes) -> bytes:
    """Return the name of a segment's run: its key without the offsets."""
    return key.rpartition(b"#")[0]


def _takes(key: bytes, kept: Kept) -> int:
    """Return the memory of a segment, in bytes."""
    return TAKES + len(key) + len(kept) if isinstance(kept, bytes) else kept[2]


def _built_weight(segment: Segment, most: int) -> int:
    """Return the memory of a segment once its run is built, as many may be at once; above `most` not to its end."""
    total = RESTORED + segment.size
    for value in segment.records:
        if total > most:
            break
        total += unparsed_structure(value, most - total)
    return total


def _packed(run: RunKey, of: OutlinedSegment) -> bytes:
    head = [of.head[name] for name in OTHERS] if of.head else None
    numbers = [of.first_offset, of.last_offset, of.at, of.part, *of.clocks, of.read, of.size]
    return json_text.encoded([*run, *numbers, head, of.numbers.tolist()])


def _unpacked(kept: Kept) -> tuple[RunKey, Segment | OutlinedSegment, int]:
    if isinstance(kept, tuple):
        return kept
    *names, first, last, at, part, opened, gap, ended, read, size, rest, numbers = json_text.loads(kept.decode())
    run, clocks = RunKey(*names), Clocks(opened, gap, ended)
    head = {**run._asdict(), **dict(zip(OTHERS, rest, strict=True))} if rest is not None else {}
    return run, OutlinedSegment(first, last, at, part, clocks, read, size, head, array("q", numbers)), RESTORED
