"""Finished turns and notices, as they come: `async for turn in Turns(group="billing")`. See `docs/consuming.md`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from turnmill.consume import notice, turn
from turnmill.consume.consuming import Consumed, Item, Unreadable
from turnmill.consume.notice import Notice
from turnmill.consume.turn import Turn

if TYPE_CHECKING:
    from turnmill.kafka.group_reader import Start
    from turnmill.settings import ClientSettings


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
        read = _turns(options, raw=raw)
        super().__init__(turn.TOPIC, group, read, **_common(options))


class Notices(Consumed[Notice]):
    """An iterator over notices, such as deleted threads and reached budgets. Works like `Turns`."""

    def __init__(self, group: str | None, **options: Unpack[Options]) -> None:
        super().__init__(notice.TOPIC, group, lambda record: notice.notice_of(record.value), **options)


def _common(options: TurnOptions) -> Options:
    return {name: value for name, value in options.items() if name in Options.__annotations__}  # type: ignore[return-value]  # its own keys


def _turns(options: TurnOptions, *, raw: bool) -> Callable[[Any], Any]:
    wanted = {
        name: frozenset(options[key])  # type: ignore[literal-required]  # a key of the TypedDict
        for name, key in (("tenant", "tenants"), ("agent_id", "agents"), ("status", "statuses"))
        if key in options
    }
    facts = options.get("facts", False)

    def read(record: Any) -> Any:
        value = turn.record_of(record.value)
        if any((value.get(name) or "") not in some for name, some in wanted.items()):
            return None
        if value.get("turn") is None and not facts:
            return None
        return value if raw else turn.turn_of(value, record.partition, record.offset, record.timestamp)

    return read
