"""Split records into portions, so that only few are decoded before the caller reacts to their memory use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def bytes_of(record: Any) -> int:
    """Return the size of a Kafka record's value in bytes."""
    return len(record.value or b"")


def portions(
    records: Sequence[Any], most: int, most_bytes: int, size_of: Callable[[Any], int] = bytes_of
) -> Iterator[Sequence[Any]]:
    """Yield the records in portions of at most `most`, and of at most `most_bytes` unless it is a single record."""
    sizes = [size_of(record) for record in records]
    if records and len(records) <= most and sum(sizes) <= most_bytes:
        yield records
        return
    begin = size = 0
    for end, more in enumerate(sizes):
        if end > begin and (end - begin == most or size + more > most_bytes):
            yield records[begin:end]
            begin, size = end, 0
        size += more
    if begin < len(records):
        yield records[begin:]
