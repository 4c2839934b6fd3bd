"""What is right: the turns that a run's records make when nothing goes wrong, and where stored ones differ."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.assembly.offline import close
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import Run
from pipeline.turns.content import references, resolved
from pipeline.turns.requests import without_bodies
from tests.simulation.broker import Entry
from tests.simulation.wire import SIM
from tests.simulation.worker import redaction
from topics.turn_record import TurnRecord


def compared(stored: Mapping[str, TurnRecord], turns: Sequence[TurnRecord]) -> str | None:
    """What is wrong with the turns of a run, by turn_id, where `turns` are right; None where nothing is."""
    right = {record["turn_id"]: record for record in turns}
    if right.keys() != stored.keys():
        return f"{len(right)} turns are right, {len(stored)} are stored"
    for turn_id, record in right.items():
        if said(stored[turn_id]) != said(record):
            return difference(said(stored[turn_id]), said(record))
    return None


def right_turns(records: Sequence[tuple[Entry, dict[str, Any]]], *, redact: Any) -> list[TurnRecord]:
    """What must be stored of a run, by what is on the events topic."""
    run: Run | None = None
    for entry, envelope in records:
        source = StoredRecord(entry.value or b"", entry.offset, entry.timestamp)
        run = run or Run(envelope, SIM, source)
        run.feed(envelope, source)
    if run is None:
        return []
    over = run.end is not None or run.builder.ended is not None
    stored = redaction().words if redact else str
    turns = close(run, run.verdict() if over else "timeout", last=True, redacted=stored, keep_requests=True)[0]
    return [redaction().record(turn) for turn in turns] if redact else turns


def whole(record: TurnRecord, objects: Mapping[str, bytes]) -> TurnRecord:
    """A turn with its large values in it again. Raises AssertionError where one is not there."""
    turn = record["turn"]
    found = references(turn) if turn is not None else []
    if turn is None or not found:
        return record
    missing = [ref["uri"] for _, ref in found if ref["uri"] not in objects]
    if missing:
        raise AssertionError(f"turn {record['turn_id']} refers to {missing[0]}, which is not there")
    return {**record, "turn": resolved(turn, {place: objects[ref["uri"]] for place, ref in found})}


def said(record: TurnRecord) -> dict[str, Any]:
    """A turn record without its revision, and without the bodies of its requests, which the store keeps apart."""
    return {**without_bodies(record), "revision": 0}


def difference(stored: Any, right: Any, place: str = "") -> str:
    """The first place at which two values differ."""
    if isinstance(stored, dict) and isinstance(right, dict) and stored.keys() == right.keys():
        key = next(key for key in stored if stored[key] != right[key])
        return difference(stored[key], right[key], f"{place}.{key}")
    if isinstance(stored, list) and isinstance(right, list) and len(stored) == len(right):
        number = next(number for number in range(len(stored)) if stored[number] != right[number])
        return difference(stored[number], right[number], f"{place}[{number}]")
    return f"at {place} is {stored!r:.300} where {right!r:.300} is right"
