"""Cuts a run whose turns exceed the record limit of their topic: as much as fits, and the rest of its records.

The result depends on the run's records alone: they are taken in the order of their seq, and cut between two of them.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from operator import itemgetter
from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.records import Envelope, Record, StoredRecord
from pipeline.assembly.run import Run
from pipeline.assembly.weight import weight
from topics.state import Segment
from turnmill.errors import InvalidRecord
from turnmill.wire import traceparent
from turnmill.wire.envelope import decode

ADVICE: Final = (
    "the turn would be larger than a record may be: with a content store (TURNMILL_CONTENT) large values are kept "
    "elsewhere"
)
# Not Final, since tests set it: compiled code would not read it again.
FIRST_BYTES = 4_000_000  # of records that are tried first


def cut_off(
    segments: Sequence[Segment], dialect_of: Callable[[Envelope], Dialect], most: int, fits: Callable[[Run], bool]
) -> tuple[Run | None, list[StoredRecord]]:
    """Return the run of as many first records as fit, and its other records; None for the run if none fits.

    `most`: the maximum weight of the run; records beyond it are left out, since they were dealt with before.
    """
    records = _within(_in_order(segments, dialect_of), most)
    fitting, some, size = 0, max(1, _count(records, FIRST_BYTES)), FIRST_BYTES
    while some < len(records) and fits(_run(records[:some], dialect_of)):
        fitting, size = some, size * 2
        some = max(some + 1, _count(records, size))
    too_many = min(some, len(records))
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fits(_run(records[:middle], dialect_of)):
            fitting = middle
        else:
            too_many = middle
    run = _run(records[:fitting], dialect_of) if fitting else None
    return run, records[fitting:]


def with_key(record: Record, thread_id: str) -> Record:
    """Return the record with the key that it had on the events topic."""
    if record.key is not None:
        return record
    return StoredRecord(record.value or b"", record.offset, record.timestamp, thread_id.encode(), record.headers)


def _within(records: Sequence[StoredRecord], most: int) -> list[StoredRecord]:
    """Return the leading records whose total weight is at most `most`."""
    weighs = 0
    for count, record in enumerate(records):
        value = record.value or b""
        weighs += weight(len(value), decode(value)["events"], weighs)
        if weighs > most:
            return list(records[:count])
    return list(records)


def _in_order(segments: Sequence[Segment], dialect_of: Callable[[Envelope], Dialect]) -> list[StoredRecord]:
    by_value: dict[bytes, tuple[int, StoredRecord]] = {}  # two workers may have spilled the same records
    for segment in sorted(segments, key=lambda s: (s.first_offset, s.last_offset, s.part)):
        headers = traceparent.headers(segment.traceparent) if segment.traceparent is not None else ()
        for value in segment.records:
            with suppress(InvalidRecord):  # it became a dead letter when the run was built again
                envelope = decode(value)
                dialect_of(envelope)
                record = StoredRecord(value, segment.last_offset, segment.at, headers=headers)
                by_value.setdefault(value, (envelope["seq"], record))
    return [record for _, record in sorted(by_value.values(), key=itemgetter(0))]


def _count(records: Sequence[StoredRecord], size: int) -> int:
    """Return how many leading records fit into `size` bytes."""
    return bisect_right(list(accumulate(len(record.value or b"") for record in records)), size)


def _run(records: Sequence[StoredRecord], dialect_of: Callable[[Envelope], Dialect]) -> Run:
    first = decode(records[0].value)
    run = Run(first, dialect_of(first), records[0], sys.maxsize)
    for record in records:
        run.feed(decode(record.value), record)
        run.last_offset = max(run.last_offset, record.offset)
    run.refusals.clear()
    run.builder.telemetry.clear()
    return run
