"""Finished turns and notices, as they come: `async for turn in Turns(group="billing")`. See `docs/consuming.md`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, overload

from turnmill.consume import notice
from turnmill.consume.consuming import Consumed, Item, Unreadable
from turnmill.consume.notice import Notice
from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import OWN_LEVELS
from turnmill.wire.envelope import loads

if TYPE_CHECKING:
    from turnmill.kafka.group_reader import Start
    from turnmill.settings import ClientSettings


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


OF_RECORD: Final = tuple(entry.name for entry in fields(Turn) if entry.name not in ("partition", "offset", "heard_at"))
# The values of fields that a record may lack, and that have no default.
MISSING: Final = {"tenant": None, "dialect": "", "revision": 0, "events": 0, "hash": None, "turn": None}


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
    given = MISSING | {name: record[name] for name in OF_RECORD if record.get(name) is not None}
    return Turn(**given, partition=partition, offset=offset, heard_at=datetime.fromtimestamp(time_ms / 1000, UTC))


class Options(TypedDict, total=False):
    """The options of all loops.

    `start`: where a group without committed offsets begins: "earliest", "latest", a datetime, or an offset for each
    partition. `unreadable`: "skip" logs a record that can't be read, "raise" raises InvalidRecord. `body_within`:
    seconds, 300 by default, that a body may take; after that, other members get the partitions. `settings`: by default
    read from the environment.
    """

    start: Start
    unreadable: Unreadable
    body_within: float
    settings: ClientSettings


class TurnOptions(Options, total=False):
    """The options of turns.

    `tenants` ("" for turns without one), `agents` (agent_id) and `statuses` (complete, interrupted) restrict the turns.
    `facts`: also yield records that have no turn, but only state facts about a thread.
    """

    tenants: Collection[str]
    agents: Collection[str]
    statuses: Collection[str]
    facts: bool


class Turns(Consumed[Item]):
    """The turns of a consumer group, at least once each; without a group (None), all from `start`, without commits.

    `raw`: yield the TurnRecord as a dict instead of a `Turn`. Raises CallerError. The loop raises BrokerError if the
    topic is missing or Kafka refuses us. While no broker answers, it waits.
    """

    @overload
    def __init__(
        self: Turns[Turn], group: str | None, *, raw: Literal[False] = ..., **options: Unpack[TurnOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Turns[dict[str, Any]], group: str | None, *, raw: Literal[True], **options: Unpack[TurnOptions]
    ) -> None: ...
    def __init__(self, group: str | None, *, raw: bool = False, **options: Unpack[TurnOptions]) -> None:
        common: Any = {name: value for name, value in options.items() if name in Options.__annotations__}
        super().__init__(TOPIC, group, _turns(options, raw=raw), **common)


class Notices(Consumed[Notice]):
    """An iterator over notices, such as deleted threads and reached budgets. Works like `Turns`."""

    def __init__(self, group: str | None, **options: Unpack[Options]) -> None:
        super().__init__(notice.TOPIC, group, lambda record: notice.notice_of(record.value), **options)


def _turns(options: TurnOptions, *, raw: bool) -> Callable[[Any], Any]:
    wanted = {
        name: frozenset(options[key])  # type: ignore[literal-required]  # a key of the TypedDict
        for name, key in (("tenant", "tenants"), ("agent_id", "agents"), ("status", "statuses"))
        if key in options
    }
    facts = options.get("facts", False)

    def read(record: Any) -> Any:
        value = record_of(record.value)
        if any((value.get(name) or "") not in some for name, some in wanted.items()):
            return None
        if value.get("turn") is None and not facts:
            return None
        return value if raw else turn_of(value, record.partition, record.offset, record.timestamp)

    return read
