"""A record of the turns topic as consuming programs receive it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import OWN_LEVELS
from turnmill.wire.envelope import loads

TOPIC: Final = "turns"  # behind the prefix of the settings
VERSION: Final = 1
UNHEARD: Final = datetime.min.replace(tzinfo=UTC)
REQUIRED: Final = ("thread_id", "run_id", "turn_id", "agent_id", "status")


@dataclass(frozen=True, slots=True)
class Turn:
    """One finished turn: the fields of a TurnRecord (`docs/records.md`), and the place where it was read.

    `turn` is a ThreadProtocol turn, as plain JSON values; None if the record only states facts about its thread.
    `heard_at`: the broker's time of the record.
    """

    tenant: str | None
    thread_id: str
    run_id: str
    turn_id: str
    agent_id: str
    dialect: str
    status: str  # complete | interrupted
    revision: int
    events: int  # the number of the run's events that were read for it
    hash: str | None
    turn: dict[str, Any] | None
    thread: dict[str, Any] = field(default_factory=dict)
    agents: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    timings: list[dict[str, int | None]] = field(default_factory=list)
    parent: dict[str, str] | None = None
    lineage: dict[str, Any] | None = None
    ordinal: int = 0
    partition: int = 0
    offset: int = 0
    heard_at: datetime = UNHEARD

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of the turn, the same in each of its records."""
        return self.tenant or "", self.thread_id, self.turn_id

    @property
    def rank(self) -> tuple[int, bool, int]:
        """The rank among records of one turn; the highest counts. A record that is delivered again has the same."""
        return self.events, self.status == "complete", self.revision


def record_of(value: bytes | None) -> dict[str, Any]:
    """Return the TurnRecord in a value of the turns topic, as plain JSON values. Raises InvalidRecord."""
    record = loads(value, OWN_LEVELS) if value is not None else None
    if not isinstance(record, dict) or record.get("v") != VERSION:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, "not a turn record of version 1")
    wrong = [name for name in REQUIRED if not isinstance(record.get(name), str)]
    wrong += [name for name in ("revision", "events") if type(record.get(name, 0)) is not int]
    if wrong:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"turn record without {', '.join(wrong)}, or of another kind")
    return record


def turn_of(record: dict[str, Any], partition: int, offset: int, time_ms: int) -> Turn:
    """Return the turn of a record that `record_of` returned."""
    return Turn(
        tenant=record.get("tenant"),
        thread_id=record["thread_id"],
        run_id=record["run_id"],
        turn_id=record["turn_id"],
        agent_id=record["agent_id"],
        dialect=record.get("dialect") or "",
        status=record["status"],
        revision=record.get("revision", 0),
        events=record.get("events", 0),
        hash=record.get("hash"),
        turn=record.get("turn"),
        thread=record.get("thread") or {},
        agents=record.get("agents") or [],
        links=record.get("links") or [],
        timings=record.get("timings") or [],
        parent=record.get("parent"),
        lineage=record.get("lineage"),
        ordinal=record.get("ordinal", 0),
        partition=partition,
        offset=offset,
        heard_at=datetime.fromtimestamp(time_ms / 1000, UTC),
    )
