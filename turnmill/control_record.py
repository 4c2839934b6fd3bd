"""A record of the control topic: a command to a run that is under way, or what became of one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from turnmill.envelope import loads
from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import NAMED_CHARACTERS

TOPIC: Final = "control"  # behind the prefix of the settings
VERSION: Final = 1
EVENT: Final = "turnmill.control"  # the type of an acknowledgement among a run's events
STOP, STATE = "stop", "state"
NOW, AFTER_TURN = "now", "after_turn"
NEEDED: Final = ("id", "thread_id", "kind", "by")
TEXTS: Final = (*NEEDED, "tenant", "run_id", "mode")


@dataclass(frozen=True, slots=True)
class Command:
    """A command to a run; times in epoch ms. `by`: who gave it."""

    id: str
    thread_id: str
    run_id: str
    tenant: str | None
    kind: str
    mode: str
    by: str
    at: int
    expires: int


def record_of(value: bytes | None) -> dict[str, Any]:
    """Value of the control topic -> the record. Raises InvalidRecord."""
    record = loads(value) if value is not None else None
    if not isinstance(record, dict) or record.get("v") != VERSION:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, "not a control record of version 1")
    wrong = [name for name in TEXTS if not _is_name(record.get(name, "x" if name not in NEEDED else None))]
    wrong += [name for name in ("at", "expires") if type(record.get(name)) is not int]
    wrong += [] if isinstance(record.get("payload", {}), dict) else ["payload"]
    if wrong:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"control record without {', '.join(wrong)}, or of another kind")
    return record


def command_of(record: dict[str, Any]) -> Command | None:
    """Return the command of a record, None for one that is no command to a run."""
    if record["kind"] == STATE or "run_id" not in record:
        return None
    names = ("id", "thread_id", "run_id", "kind", "by", "at", "expires")
    given = {name: record[name] for name in names}
    return Command(**given, tenant=record.get("tenant"), mode=record.get("mode", NOW))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= NAMED_CHARACTERS
