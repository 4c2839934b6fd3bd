"""Runs whose raw records are on the state topic: making segments of them, and building runs from segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.limits import Limits
from pipeline.assembly.parking import Outline, OutlinedSegment, outlined, unknown
from pipeline.assembly.records import Envelope, Record, Refused, StoredRecord
from pipeline.assembly.run import Run
from topics.state import MAX_SEGMENT_BYTES, Clocks, RunKey, Segment
from turnmill.errors import InvalidRecord, Reason
from turnmill.wire import traceparent
from turnmill.wire.envelope import decode

RESTORED: Final = 1_200  # bytes of memory of a segment, and of the names of its run, beyond its records
DialectOf = Callable[[Envelope], Dialect]  # raises InvalidRecord for an unknown dialect


@dataclass(slots=True, eq=False)
class SpilledRun:
    """A run all of whose records are on the state topic. Times in broker ms; `size`: the weight of its records.

    `weight`: the memory that it takes, in bytes; `due`: its earliest deadline when it was put among the spilled runs.

    After a restart, it consists of its `segments` only, until it is needed and is built again from them; `gap_at` and
    `ended_at` are those of `Run`, as far as the segments have them.

    `read` is set if it is parked: the offset up to which its events were read. A parked run is only followed, by `run`
    or outlines; its turn is built by `parked_runs.build`.
    """

    segments: list[Segment | OutlinedSegment]
    last_at: int
    opened_at: int
    revision: int = 0
    size: int = 0
    weight: int = 0
    run: Run | None = None
    gap_at: int | None = None
    ended_at: int | None = None
    read: int | None = None
    due: int = 0

    @classmethod
    def restored(
        cls,
        segments: Sequence[Segment | OutlinedSegment],
        dialects: Mapping[str, Dialect],
        since: int,
        revision: int,
        weight: int,
        *,
        is_open: bool,
    ) -> SpilledRun:
        """Return a run that a restart has read.

        `since`: the offset of its last mark, -1 if it has none. `weight`: the memory of its segments, if it is built.
        """
        newer = [segment for segment in segments if segment.last_offset > since] if is_open else list(segments)
        newest = max(newer, key=in_order)
        opened_at, gap_at, ended_at = newest.clocks
        size = sum(segment.size for segment in segments)
        restored = cls(list(segments), newest.at, opened_at, revision, size, weight)
        if is_open:
            restored.gap_at, restored.ended_at = gap_at, ended_at
        if any(isinstance(segment, OutlinedSegment) for segment in segments) or (is_open and newest.read is not None):
            restored.read = max(since, newest.last_offset if newest.read is None else newest.read)
            restored.segments, restored.weight = _outlined(segments, dialects), RESTORED * len(segments)
        return restored

    def outlined(self, dialects: Mapping[str, Dialect]) -> SpilledRun:
        """Return the run as a parked one, with outlines of its segments, all of whose events were read."""
        read = max(segment.last_offset for segment in self.segments)
        segments = _outlined(self.segments, dialects)
        return replace(self, segments=segments, weight=RESTORED * len(segments), read=read)

    @classmethod
    def of(cls, run: Run) -> SpilledRun:
        """Return a run in memory as a spilled one."""
        spilled = cls([], run.last_at, run.opened_at, run.revision, run.size, run.weight, run, read=run.read)
        spilled.gap_at, spilled.ended_at = run.gap_at, run.ended_at
        return spilled

    def due_at(self, limits: Limits) -> int:
        """Return its earliest deadline: it is overdue after this broker time, if no record comes; see `deadlines`."""
        clocks = self.run or self
        due = min(clocks.last_at + limits.idle_ms, clocks.opened_at + limits.run_ms)
        if clocks.gap_at is not None:
            return min(due, clocks.gap_at + limits.gap_ms)
        return due if clocks.ended_at is None else min(due, max(clocks.ended_at, clocks.last_at) + limits.grace_ms)

    def rebuilt(self, key: RunKey, dialect_of: DialectOf, dead: list[Refused], most: int) -> Run | None:
        """Return the run, built again if necessary; None if nothing of it can be read."""
        if self.run is None:
            if self.read is not None:
                self.run = _parked(self, dialect_of, most)
                self.segments.clear()
            else:
                self.run = rebuild(key, _emptied(self.segments), dialect_of, dead, most)
            if self.run is not None:
                self.run.revision = self.revision
        return self.run


def _outlined(
    segments: Iterable[Segment | OutlinedSegment], dialects: Mapping[str, Dialect]
) -> list[Segment | OutlinedSegment]:
    return [segment if isinstance(segment, OutlinedSegment) else outlined(segment, dialects) for segment in segments]


def _emptied(segments: list[Segment | OutlinedSegment]) -> Iterator[Segment]:
    """Yield the segments with records, in order; empty the list, so that the records are freed as the run grows."""
    segments.sort(key=in_order, reverse=True)
    while segments:
        segment = segments.pop()
        if isinstance(segment, Segment):
            yield segment


def rebuild(
    key: RunKey,
    segments: Iterable[Segment],
    dialect_of: DialectOf,
    dead: list[Refused],
    most: int,
    unread: Callable[[Run, Segment, Record], None] | None = None,
) -> Run | None:
    """Return the run `key`, built from its raw records; None if nothing can be read.

    Its telemetry and dead letters were published when the records were first read.

    `segments`: in their order, best one at a time. `most`: maximum weight of the run. Records that can't be read any
    more are added to `dead`. `unread` is called after each record; for a parked run, it collects the results of events
    that were not read before.
    """
    run: Run | None = None
    named = key.thread_id.encode()
    for segment in segments:
        headers = traceparent.headers(segment.traceparent) if segment.traceparent is not None else ()
        for value in segment.records:
            if run is not None and run.beyond is not None:  # the limit was lowered since, or the run was parked
                run.beyond.append(StoredRecord(value, segment.last_offset, segment.at, named))
                continue
            record = StoredRecord(value, segment.last_offset, segment.at, named, headers)
            try:
                envelope = decode(value)
                dialect = dialect_of(envelope)
                run = run or Run(envelope, dialect, record, most)
                if run.end is not None and not run.knows(envelope):  # it was closed, and reopened by this record
                    run.reopen(run.revision, record.timestamp)
                run.feed(envelope, record)
            except InvalidRecord as error:  # written by a newer worker
                dead.append(Refused(record, error.reason, error.detail))
                continue
            except Exception as error:  # no single record may stop the rest, as in `Partition.take`
                dead.append(Refused(record, Reason.INVALID_EVENT, f"{type(error).__name__}: {error}"))
                continue
            run.spilled = run.size
            run.last_offset = max(run.last_offset, segment.last_offset)
            if unread is not None:
                unread(run, segment, record)
        if run is not None:  # restore the time: its records have that of the last of them
            run.opened_at, run.gap_at, ended_at = segment.clocks
            if ended_at is not None and run.builder.ended is not None:
                run.ended_at = ended_at
    if run is not None:
        run.refusals.clear()
        run.builder.telemetry.clear()
        run.duplicates = 0
    return run


def _parked(spilled: SpilledRun, dialect_of: DialectOf, most: int) -> Run | None:
    """Return a parked run, followed through the outlines of its segments."""
    run: Run | None = None
    for segment in sorted(spilled.segments, key=in_order):
        for envelope in segment.outlines() if isinstance(segment, OutlinedSegment) else ():
            record = StoredRecord(b"", segment.last_offset, segment.at)
            if run is None:
                run = Run(envelope, _dialect(envelope, dialect_of), record, most)
                run.park()
            if run.end is not None and not run.knows(envelope):
                run.reopen(run.revision, record.timestamp)
            run.feed(envelope, record)
            run.last_offset = max(run.last_offset, segment.last_offset)
    if run is not None:
        run.read, run.spilled, run.duplicates = spilled.read, run.size, 0
        run.opened_at, run.gap_at = spilled.opened_at, spilled.gap_at
        if spilled.ended_at is not None and run.builder.ended is not None:
            run.ended_at = spilled.ended_at
    return run


def _dialect(envelope: Outline, dialect_of: DialectOf) -> Dialect:
    with suppress(InvalidRecord):
        return dialect_of(envelope)
    return unknown(envelope["dialect"])


def segments_of(run: Run) -> Iterator[Segment]:
    """Yield segments of the records that the state topic does not have yet, within its record limit."""
    parent = run.builder.context.traceparent
    clocks = Clocks(run.opened_at, run.gap_at, run.ended_at)
    batch: list[bytes] = []
    size = part = 0
    for value in [*run.unspilled, b""]:
        if batch and (not value or size + len(value) > MAX_SEGMENT_BYTES):
            yield Segment(run.first_offset, run.last_offset, run.last_at, clocks, batch, part, parent, run.read)
            batch, size, part = [], 0, part + 1
        batch.append(value)
        size += len(value)


def in_order(segment: Segment | OutlinedSegment) -> tuple[int, int, int]:
    """Return what the segments of a run are sorted by."""
    return segment.first_offset, segment.last_offset, segment.part
