"""Runs that are not in memory: their raw records are in the state topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.run import Refused, Run, StoredRecord
from threadmill import traceparent
from threadmill.envelope import decode
from threadmill.errors import InvalidRecord
from topics.state import Segment


@dataclass(slots=True, eq=False)
class Parked:
    """A run all of whose records are in the state topic; it is built again from `segments` when it is needed."""

    segments: list[Segment]
    last_at: int
    opened_at: int
    revision: int = 0
    size: int = 0  # bytes of its records
    run: Run | None = None

    def revive(self, dialect_of: Callable[[dict[str, Any]], Dialect], dead: list[Refused]) -> Run | None:
        """The run, built again where it has to be; None where nothing of it can be read."""
        if self.run is None:
            self.run = rebuild(self.segments, dialect_of, dead)
            self.segments = []
            if self.run is not None:
                self.run.revision = self.revision
        return self.run


def rebuild(
    segments: Sequence[Segment], dialect_of: Callable[[dict[str, Any]], Dialect], dead: list[Refused]
) -> Run | None:
    """A run from its raw records; its telemetry and dead letters went out when they were read first.

    `dialect_of` raises InvalidRecord for an envelope of none; records that can't be read any more go to `dead`.
    """
    run: Run | None = None
    for segment in sorted(segments, key=lambda s: (s.first_offset, s.last_offset, s.part)):
        headers = traceparent.headers(segment.traceparent) if segment.traceparent is not None else ()
        for value in segment.records:
            record = StoredRecord(value, segment.last_offset, segment.at, headers=headers)
            try:
                envelope = decode(value)
                dialect = dialect_of(envelope)
            except InvalidRecord as error:  # a newer worker could read it
                dead.append(Refused(record, error.reason, error.detail))
                continue
            run = run or Run(envelope, dialect, record)
            run.feed(envelope, record)
            run.size = run.spilled = run.size + len(value)
            run.last_offset = max(run.last_offset, segment.last_offset)
    if run is not None:
        run.refused.clear()
        run.builder.telemetry.clear()
        run.duplicates = 0
    return run


def stored_bytes(segments: Sequence[Segment]) -> int:
    """Bytes of all records in segments."""
    return sum(len(value) for segment in segments for value in segment.records)
