"""Conversion of a history of messages to turns, as if each exchange had been a run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, Final, TypeVar

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Messages, Reader
from pipeline.assembly.finish import finish
from pipeline.assembly.parts import Context
from pipeline.dialects import model_calls
from pipeline.dialects.asked_parts import write
from pipeline.dialects.model_calls import RequestReader
from pipeline.turns.thread_document import thread_document
from pipeline.turns.times import epoch_ms, iso
from topics.json_text import Fields
from topics.turn_record import TurnRecord
from turnmill.errors import InvalidRecord, Reason

T = TypeVar("T")
TIMES: Final = frozenset({"submitted_at", "started_at", "completed_at", "interrupted_at", "timestamp"})


@dataclass(frozen=True, slots=True)
class Origin:
    """Ids and names that a history lacks. `at` (epoch ms): the time of messages that have none."""

    thread_id: str
    agent_id: str
    at: int
    agent_name: str | None = None
    external_id: str | None = None


def thread(reader: Reader, messages: Any, origin: Origin) -> Fields:
    """Return a ThreadProtocol 0.0.4 document. Turns have the same ids however often a growing history is read.

    Raises InvalidRecord if these are not messages of that SDK; it names the first unreadable exchange.
    """
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise InvalidRecord(Reason.INVALID_EVENT, "a history is a JSON list of messages, each an object")
    records: list[TurnRecord] = []
    for number, exchange in enumerate(_read(partial(reader.split, messages), "the history")):
        for record in _read(partial(_exchange, reader, exchange, origin, number), f"exchange {number + 1}"):
            turn = record["turn"]
            if turn is not None:
                floor = _end(records[-1]["turn"] or {}) + (not record.get("ordinal")) if records else 0
                record["turn"] = _not_before(turn, floor)
            records.append(record)
    return thread_document(origin.thread_id, records)


def _exchange(reader: Reader, exchange: Messages, origin: Origin, number: int) -> list[TurnRecord]:
    context = Context(origin.thread_id, f"import-{number}", origin.agent_id, "thread-protocol")
    context.agent_name, context.external_id = origin.agent_name, origin.external_id
    at = reader.time(exchange)
    builder = Builder(context, origin.at if at is None else at)
    end = reader.fill(builder, exchange)
    builder.facts_only = end is None
    return finish(builder, end or "complete", events=len(exchange))


def _read(read: Callable[[], T], what: str) -> T:
    try:
        return read()
    except InvalidRecord as error:
        raise InvalidRecord(error.reason, f"{what}: {error.detail}") from None
    except KeyError as error:
        raise InvalidRecord(Reason.INVALID_EVENT, f"{what}: {error.args[0]!r:.80} is missing") from None
    except (TypeError, AttributeError, ValueError) as error:
        raise InvalidRecord(Reason.INVALID_EVENT, f"{what}: {type(error).__name__}: {error}") from None


# ---- times: no turn begins before the end of the previous one, even if the clocks of their messages differ


def _not_before(turn: Fields, floor: int) -> Fields:
    """Return the turn; its times before `floor` (epoch ms) are raised to it."""
    later = {key: _clamped(value, floor) if key in TIMES else value for key, value in turn.items()}
    if isinstance(turn.get("interruption"), dict):
        later["interruption"] = _not_before(turn["interruption"], floor)
    if "messages" in turn:
        later["messages"] = [_not_before(message, floor) for message in turn["messages"]]
    return later


def _clamped(value: Any, floor: int) -> Any:
    at = epoch_ms(value)
    return iso(floor) if at is not None and at < floor else value


def _end(turn: Fields) -> int:
    cut_off = turn.get("interruption") or {}
    times = (turn.get("submitted_at"), turn.get("completed_at"), cut_off.get("interrupted_at"))
    return max((at for at in map(epoch_ms, times) if at is not None), default=0)


def fill_calls(
    builder: Builder, messages: Messages, reader: RequestReader, respond: Callable[[Builder, Fields], None]
) -> str | None:
    """Fill the builder with the calls of a finished run; `respond` adds a message of the model. Return its end."""
    model_calls.begin(builder, reader)
    first = next((n for n, message in enumerate(messages) if reader.is_own(message)), len(messages))
    write(builder, [part for message in messages[:first] for part in reader.parts(message)], opening=True)
    for message in messages[first:]:
        if reader.is_own(message):
            respond(builder, message)
        else:
            write(builder, reader.parts(message))
    return "complete" if first < len(messages) else None


class MessagePlace(Enum):
    """The position of a message in its exchange."""

    PROMPT = auto()  # at the beginning: after an answer it begins the next exchange
    MIDDLE = auto()  # the exchange continues after it, such as after a call of a tool
    ANSWER = auto()  # at the end: the next prompt begins another exchange


def exchanges(messages: Iterable[Fields], place_of: Callable[[Fields], MessagePlace | None]) -> list[Messages]:
    """Cut a history before each prompt that follows an answer.

    `place_of` returns None for a message that may stand anywhere; the one before it then decides.
    """
    exchanges: list[list[Fields]] = [[]]
    answered = False
    for message in messages:
        start = place_of(message)
        if start is MessagePlace.PROMPT and answered:
            exchanges.append([])
        if start is not None:
            answered = start is MessagePlace.ANSWER
        exchanges[-1].append(message)
    return [exchange for exchange in exchanges if exchange]
