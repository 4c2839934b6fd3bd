"""A record of the control topic: a command to a run that is under way, or the state of such a command. Pure."""

from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Final

from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import NAMED_CHARACTERS, STEER_CHARACTERS
from turnmill.wire.envelope import encode, loads

TOPIC: Final = "control"  # behind the prefix of the settings
VERSION: Final = 1
EVENT: Final = "turnmill.control"  # the type of an acknowledgement among a run's events
STOP, STEER, ANSWER, STATE = "stop", "steer", "answer", "state"
NOW, AFTER_TURN = "now", "after_turn"
BUDGET: Final = "budget"  # the value of `by` in a command that stops a run because its budget is used up
NEEDED: Final = ("id", "thread_id", "kind", "by")
TEXTS: Final = (*NEEDED, "tenant", "run_id", "mode")
PAYLOAD: Final = {STEER: {"text": STEER_CHARACTERS}, ANSWER: {"answer_id": NAMED_CHARACTERS}}  # required texts
COMMAND_BYTES: Final = 800  # what a command takes in memory, without its texts and its payload
COMMAND_NAMES: Final = ("id", "thread_id", "run_id", "tenant", "kind", "mode", "by", "at", "expires")


@dataclass(frozen=True, slots=True)
class Command:
    """A command to a run; times in epoch ms. `by`: its author.

    `packed`: its payload as JSON, since parsed values take many times as much memory. `run_id` of an answer names the
    run that asked; it is empty if that run is not known.
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
    packed: bytes = b""

    @property
    def payload(self) -> dict[str, Any]:
        """Of a steer: its `text`; of an answer: its `answer_id`, `value`, the question (`asked`) and its `dialect`."""
        payload: dict[str, Any] = loads(self.packed) if self.packed else {}
        return payload

    @property
    def size(self) -> int:
        """The bytes that it takes in memory."""
        return COMMAND_BYTES + sum(map(getsizeof, (self.run_id, self.by, self.packed)))

    @property
    def record(self) -> dict[str, Any]:
        """Return the command as a record of the topic."""
        fields = {name: getattr(self, name) for name in (*COMMAND_NAMES, "payload")}
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
    missing: dict[str, Any] = {"run_id": "", "tenant": None, "mode": NOW}
    packed = encode(record["payload"]) if record.get("payload") else b""
    return Command(**(missing | {name: record[name] for name in COMMAND_NAMES if name in record}), packed=packed)


def _is_text(value: Any, most: int = NAMED_CHARACTERS) -> bool:
    return isinstance(value, str) and 0 < len(value) <= most
