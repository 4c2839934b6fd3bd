"""The records that assembly takes: from the events topic, the state topic, or a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from topics.json_text import Fields
from turnmill.errors import Reason

Envelope = Fields  # the JSON of a record of the events topic


class Record(Protocol):
    """The fields of a Kafka record that assembly needs; `timestamp` is the broker's, epoch ms."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A raw record from a file or the state topic."""

    value: bytes | None
    offset: int
    timestamp: int
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """An event (or a whole record) that becomes a dead letter."""

    record: Record
    reason: Reason
    detail: str


def buried(values: Iterable[bytes], offset: int, at: int, thread_id: str, detail: str) -> list[Refused]:
    """Return a dead letter for each raw record of a run of which no turn could be made.

    `offset` and `at` (broker ms) are those of the newest record.
    """
    key = thread_id.encode()
    return [Refused(StoredRecord(value, offset, at, key), Reason.INVALID_EVENT, detail) for value in values]
