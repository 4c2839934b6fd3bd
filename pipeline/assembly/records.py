"""The records that assembly takes, from the events topic, the state topic or a file, and why it refuses events."""

import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from topics.json_text import Fields
from turnmill.errors import InvalidRecord, Reason

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


def refusal(event: Any, kind: str, error: Exception) -> tuple[Reason, str]:
    """Return the reason and the detail of a handler's error. `kind`: the key of an event's type."""
    if isinstance(error, InvalidRecord):
        return error.reason, error.detail
    return Reason.INVALID_EVENT, _detail(event, kind, error)


def _detail(event: Any, kind: str, error: Exception) -> str:
    if not isinstance(event, dict):
        return f"an event must be a JSON object, got {reprlib.repr(event)}"
    if not isinstance(event.get(kind), str):
        return f"an event needs a string {kind!r}, got {reprlib.repr(event.get(kind))}"
    if isinstance(error, KeyError):
        missing = reprlib.repr(error.args[0]) if error.args else "something"
        return f"{event[kind]:.80}: {missing} is missing, or refers to nothing that is open"
    return f"{event[kind]:.80}: {type(error).__name__}: {error}"
