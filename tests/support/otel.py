"""Recorded exports of OpenTelemetry (`tests/corpus/otel`), and what is assembled of their spans."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.gateway.intake.otlp import _record
from pipeline.gateway.intake.otlp_events import events_of
from pipeline.turns.thread_document import thread_document
from topics.json_text import Fields
from topics.turn_record import TurnRecord

FOLDER: Final = Path(__file__).parent.parent / "corpus" / "otel"
CASES: Final = sorted(path.stem for path in FOLDER.glob("*.json"))


def requests_of(case: str) -> list[Any]:
    """The requests of a recording, in the order in which they came: {"signal", "body"}."""
    requests: list[Any] = json.loads((FOLDER / f"{case}.json").read_text("utf-8"))["requests"]
    return requests


def events_in(case: str) -> list[Fields]:
    """The events that the gateway makes of a recording."""
    return [event for request in requests_of(case) for event in events_of(request["signal"], request["body"])[0]]


def envelopes_of(events: Iterable[Fields]) -> list[Fields]:
    """The records of events."""
    return [json.loads(_record(event, None)[1]) for event in events]


def records_of(events: Sequence[Fields], *, keep_requests: bool = False) -> list[TurnRecord]:
    """The turn records of the traces of these events, by their times. Asserts that nothing was refused."""
    by_trace: dict[str, list[Fields]] = defaultdict(list)
    for envelope in envelopes_of(events):
        by_trace[envelope["run_id"]].append(envelope)
    records: list[TurnRecord] = []
    for envelopes in by_trace.values():
        made, refused = assemble(DIALECTS["otel"], envelopes, keep_requests=keep_requests)
        assert refused == []
        records += made
    return sorted(records, key=_time)


def _time(record: TurnRecord) -> tuple[str, int]:
    turn = record["turn"] or {}
    return turn.get("submitted_at") or turn["started_at"], record.get("ordinal", 0)


def threads_of(records: Sequence[TurnRecord]) -> dict[str, list[Fields]]:
    """The turns of each thread, as a reader sees them."""
    by_thread: dict[str, list[TurnRecord]] = defaultdict(list)
    for record in records:
        by_thread[record["thread_id"]].append(record)
    return {name: thread_document(name, some)["turns"] for name, some in by_thread.items()}


def said(turns: Iterable[Fields]) -> list[tuple[str, ...]]:
    """What was said in turns, in order: each piece once."""
    pieces: list[tuple[str, ...]] = []
    for turn in turns:
        if turn["turn_type"] == "user":
            pieces += [("user", str(part["content"])) for part in turn["parts"]]
        for message in turn.get("messages", ()):
            pieces += [_piece(part) for part in message.get("parts", ())]
    return pieces


def _piece(part: Fields) -> tuple[str, ...]:
    match part["part_kind"]:
        case "tool-call":
            return "call", part["tool_name"], str(part["args"].get("city"))
        case "tool-return":
            return "result", str(part["content"])
        case kind:
            return kind, str(part["content"])


def used(turns: Iterable[Fields]) -> tuple[int | None, ...]:
    """The tokens of turns: in, of which cached; out, of which thoughts. None: none was told."""
    names = ("input_tokens", "cache_read_tokens", "output_tokens", "thinking_tokens")
    totals = [turn["total_usage"] for turn in turns if "total_usage" in turn]
    known = ([total[name] for total in totals if name in total] for name in names)
    return tuple(sum(counts) if counts else None for counts in known)
