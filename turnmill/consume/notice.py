"""A record of the notices topic: an event that is no turn, and that other systems may want to know."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from turnmill.errors import InvalidRecord, Reason
from turnmill.wire.envelope import loads

TOPIC: Final = "notices"  # behind the prefix of the settings
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice.

    `id` is the same each time the notice is delivered. `type`: thread.deleted, budget.reached, alert.started,
    alert.ended, command.unanswered, audit.recorded; readers ignore others. `thread_id` is set if the notice is about a
    thread; the content of `data` depends on the type (`docs/records.md`).
    """

    id: str
    type: str
    at: datetime
    tenant: str | None
    thread_id: str | None
    data: dict[str, Any]


def record_of(value: bytes | None) -> dict[str, Any]:
    """Return the NoticeRecord in a value of the notices topic, as plain JSON values. Raises InvalidRecord."""
    record = loads(value) if value is not None else None
    if not isinstance(record, dict) or record.get("v") != VERSION:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, "not a notice of version 1")
    wrong = [name for name in ("id", "type") if not isinstance(record.get(name), str) or not record[name]]
    wrong += [name for name in ("tenant", "thread_id") if not isinstance(record.get(name, ""), str)]
    wrong += [] if type(record.get("at")) is int else ["at"]
    wrong += [] if isinstance(record.get("data"), dict) else ["data"]
    if wrong:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"notice without {', '.join(wrong)}, or of another kind")
    return record


def notice_of(value: bytes | None) -> Notice:
    """Return the notice in a value of the notices topic. Raises InvalidRecord."""
    record = record_of(value)
    at = datetime.fromtimestamp(record["at"] / 1000, UTC)
    return Notice(record["id"], record["type"], at, record.get("tenant"), record.get("thread_id"), record["data"])
