"""Runs whose raw records are on the state topic: how they get there as segments, and how they are built again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.records import Envelope, Refused, StoredRecord
from pipeline.assembly.run import Run
from threadmill import traceparent
from threadmill.envelope import decode
from threadmill.errors import InvalidRecord
from topics.state import MAX_SEGMENT_BYTES, Clocks, Segment


@dataclass(slots=True, eq=False)
class SpilledRun:
    """A run all of whose records are on the state topic. Times in broker ms; `size`: bytes of its records.

    After a restart it is only its `segments`, until it is needed and is built again from them; `gap_at` and `ended_at`
    are those of `Run`, as far as the segments say them.
    """

    segments: list[Segment]
    last_at: int
    opened_at: int
    revision: int = 0
    size: int = 0
    run: Run | None = None
    gap_at: int | None = None
    ended_at: int | None = None

    @classmethod
    def restored(cls, segments: list[Segment], newer: list[Segment], revision: int) -> SpilledRun:
        """An open run, of which the segments `newer` came since it was closed last."""
        newest = max(newer, key=lambda segment: (segment.last_offset, segment.part))
        opened_at, gap_at, ended_at = newest.clocks or Clocks(min(segment.at for segment in newer))
        size = stored_bytes(segments)
        return cls(segments, newest.at, opened_at, revision, size, gap_at=gap_at, ended_at=ended_at)

    @classmethod
    def of(cls, run: Run) -> SpilledRun:
        """A run that is in memory."""
        return cls([], run.last_at, run.opened_at, run.revision, run.size, run)

    def rebuilt(self, dialect_of: Callable[[Envelope], Dialect], dead: list[Refused], most: int) -> Run | None:
        """The run, built again where it has to be; None where nothing of it can be read."""
        if self.run is None:
            self.run = rebuild(self.segments, dialect_of, dead, most)
            if self.run is not None:
                self.run.revision = self.revision
        return self.run


def rebuild(
    segments: list[Segment], dialect_of: Callable[[Envelope], Dialect], dead: list[Refused], most: int
) -> Run | None:
    """A run from its raw records; its telemetry and dead letters went out when they were read first.

    The list of segments is emptied on the way: so the records go as the run grows. `most`: bytes that it may have.
    `dialect_of` raises InvalidRecord for an envelope of none; records that can't be read any more go to `dead`.
    """
    run: Run | None = None
    segments.sort(key=lambda s: (s.first_offset, s.last_offset, s.part), reverse=True)
    while segments:
        segment = segments.pop()
        headers = traceparent.headers(segment.traceparent) if segment.traceparent is not None else ()
        for value in segment.records:
            if run is not None and run.beyond is not None:  # the limit was lowered since
                run.beyond.append(StoredRecord(value, segment.last_offset, segment.at))
                continue
            record = StoredRecord(value, segment.last_offset, segment.at, headers=headers)
            try:
                envelope = decode(value)
                dialect = dialect_of(envelope)
            except InvalidRecord as error:  # a newer worker could read it
                dead.append(Refused(record, error.reason, error.detail))
                continue
            run = run or Run(envelope, dialect, record, most)
            if run.end is not None and not run.knows(envelope):  # it was closed then, and this record opened it again
                run.reopen(run.revision, record.timestamp)
            run.feed(envelope, record)
            run.spilled = run.size
            run.last_offset = max(run.last_offset, segment.last_offset)
        if run is not None and segment.clocks is not None:  # as it was: its records have the time of the last of them
            run.opened_at, run.gap_at, run.ended_at = segment.clocks
    if run is not None:
        run.refusals.clear()
        run.builder.telemetry.clear()
        run.duplicates = 0
    return run


def segments_of(run: Run) -> Iterator[Segment]:
    """The records of a run that the state topic does not have yet, in parts of a size that it takes."""
    parent = run.builder.context.traceparent
    clocks = Clocks(run.opened_at, run.gap_at, run.ended_at)
    batch: list[bytes] = []
    size = part = 0
    for value in [*run.unspilled, b""]:
        if batch and (not value or size + len(value) > MAX_SEGMENT_BYTES):
            yield Segment(run.first_offset, run.last_offset, run.last_at, batch, part, parent, clocks)
            batch, size, part = [], 0, part + 1
        batch.append(value)
        size += len(value)


def stored_bytes(segments: Sequence[Segment]) -> int:
    """Bytes of all records in segments."""
    return sum(len(value) for segment in segments for value in segment.records)
