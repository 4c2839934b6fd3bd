"""A record of the control topic: a command to a run that is under way, or the state of such a command. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import NAMED_CHARACTERS, STEER_CHARACTERS
from turnmill.wire.envelope import loads

TOPIC: Final = "control"  # behind the prefix of the settings
VERSION: Final = 1
EVENT: Final = "turnmill.control"  # the type of an acknowledgement among a run's events
STOP, STEER, ANSWER, STATE = "stop", "steer", "answer", "state"
NOW, AFTER_TURN = "now", "after_turn"
BUDGET: Final = "budget"  # the value of `by` in a command that stops a run because its budget is used up
NEEDED: Final = ("id", "thread_id", "kind", "by")
TEXTS: Final = (*NEEDED, "tenant", "run_id", "mode")
PAYLOAD: Final = {STEER: {"text": STEER_CHARACTERS}, ANSWER: {"answer_id": NAMED_CHARACTERS}}  # required texts
NAMES: Final = ("id", "thread_id", "run_id", "tenant", "kind", "mode", "by", "at", "expires", "payload")


@dataclass(frozen=True, slots=True)
class Command:
    """A command to a run; times in epoch ms. `by`: its author.

    `payload`: for a steer its `text`; for an answer its `answer_id` and `value`, the question (`asked`) and its
    `dialect`. `run_id` of an answer names the run that asked; it is empty if that run is not known.
    """

    id: str
    thread_id: str
    run_id: str
    tenant: str | None
    kind: str
    mode: str
    by: str
    at: int
    expires: int
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """Return the command as a record of the topic."""
        fields = {name: getattr(self, name) for name in NAMES}
        return {"v": VERSION, **{name: value for name, value in fields.items() if value not in (None, "", {})}}


def record_of(value: bytes | None) -> dict[str, Any]:
    """Return the record in a value of the control topic. Raises InvalidRecord."""
    record = loads(value) if value is not None else None
    if not isinstance(record, dict) or record.get("v") != VERSION:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, "not a control record of version 1")
    wrong = [name for name in TEXTS if not _is_text(record.get(name, "x" if name not in NEEDED else None))]
    wrong += [name for name in ("at", "expires") if type(record.get(name)) is not int]
    payload = record.get("payload", {})
    if not isinstance(payload, dict):
        wrong.append("payload")
    elif isinstance(record.get("kind"), str):
        needed = PAYLOAD.get(record["kind"], {})
        wrong += [f"payload.{name}" for name, most in needed.items() if not _is_text(payload.get(name), most)]
    if wrong:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"control record without {', '.join(wrong)}, or of another kind")
    return record


def command_of(record: dict[str, Any]) -> Command | None:
    """Return the command in a record; None if the record is not a command to a run."""
    if record["kind"] != ANSWER and (record["kind"] not in (STOP, STEER) or "run_id" not in record):
        return None
    missing: dict[str, Any] = {"run_id": "", "tenant": None, "mode": NOW, "payload": {}}
    return Command(**(missing | {name: record[name] for name in NAMES if name in record}))


def _is_text(value: Any, most: int = NAMED_CHARACTERS) -> bool:
    return isinstance(value, str) and 0 < len(value) <= most
