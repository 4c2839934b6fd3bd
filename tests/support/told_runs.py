"""Recorded and made runs that tell what they used, and the sums of what they are billed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from pipeline.assembly.offline import assemble
from pipeline.cli.files.assemble import RUN_INFO
from pipeline.dialects import DIALECTS
from pipeline.stores.costs.rows import usage_rows
from pipeline.turns.thread_document import rank, thread_document
from pipeline.turns.tokens import COST, COUNTS
from tests.same_bytes import streams
from tests.support.assembled import START, THREAD_ID
from topics.turn_record import TurnRecord
from turnmill.wire.framing import decode

Fields = dict[str, Any]
SUMMED: Final = (*COUNTS, COST, "requests", "turns", "estimated_nano_usd")


@dataclass(frozen=True, slots=True)
class Told:
    """The events of one run, and what its publisher knows beside them."""

    dialect: str
    name: str
    events: list[Any]
    run: Fields = field(default_factory=dict)
    thread: str = THREAD_ID
    run_id: str = "run-1"

    def envelope(self, first: int = 0, last: int | None = None) -> Fields:
        """The record of these events; the n-th of the run happens n * 10 ms after START."""
        names = {"thread_id": self.thread, "run_id": self.run_id, "agent_id": "agent-1", "dialect": self.dialect}
        events = self.events[first:last]
        known = {"v": 1, **names, "seq": first, "ts": START + 10 * first, "events": events}
        return {**known, "dt": [10 * n for n in range(len(events))], **({"run": self.run} if first == 0 else {})}

    def records(self, envelopes: list[Fields] | None = None) -> list[TurnRecord]:
        """The turns that the run becomes."""
        return assemble(DIALECTS[self.dialect], envelopes or [self.envelope()])[0]

    def document(self) -> Fields:
        """The thread that consists of this run."""
        return thread_document(self.thread, self.records())

    def with_events(self, events: list[Any], run: Fields | None = None) -> Told:
        return replace(self, events=events, run=self.run if run is None else run)


def billed(records: Iterable[TurnRecord]) -> Counter[str]:
    """The sums over the rows of turns, of which a store has the newest version each."""
    stored: dict[tuple[str, str], TurnRecord] = {}
    for record in records:
        key = record["thread_id"], record["turn_id"]
        if key not in stored or rank(record) >= rank(stored[key]):
            stored[key] = record
    sums: Counter[str] = Counter()
    for record in stored.values():
        for row in usage_rows(record):
            sums.update({name: row[name] for name in SUMMED if row[name]})
    return sums


@cache
def told_runs(dialect: str) -> list[Told]:
    """The recordings of a wire, and the runs made for it, that have tokens or costs."""
    recorded = (_recorded(dialect, file) for wire, file in streams() if wire == dialect)
    made = (Told(dialect, name, events) for wire, name, events in MADE if wire == dialect)
    return [told for told in (*recorded, *made) if _tells(told)]


def _tells(told: Told) -> bool:
    return bool(billed(told.records()).keys() & {"input_tokens", "output_tokens", COST})


def _recorded(dialect: str, file: Path) -> Told:
    events = [item.event for item in decode(file.read_bytes(), DIALECTS[dialect].wire) if item.event is not None]
    stem = file.name.removesuffix(file.suffix)
    info = _json(file.with_name(f"{stem}.run.json"))
    run = {key: info[key] for key in RUN_INFO if info.get(key) is not None}
    body = _json(file.with_name(f"{stem}.meta.json")).get("request_body")
    return Told(dialect, file.name, events, run if body is None else {**run, "request": body})


def _json(path: Path) -> Fields:
    found: Fields = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


# ---- runs with what no recording has


def _text(*events: Any) -> Iterator[Fields]:
    yield {"type": "start", "messageId": "m1"}
    yield {"type": "start-step"}
    yield from ({"type": f"text-{what}", "id": "t", **({"delta": "Sun."} if what == "delta" else {})} for what in SAYS)
    yield {"type": "finish-step"}
    yield from events


SAYS: Final = ("start", "delta", "end")
SPENT: Final = {"input_tokens": 23_000, "output_tokens": 1_000}
COMPACTED: Final = [
    {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
    {"type": "message", **SPENT},
]
MESSAGE: Final = {"id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
BLOCK: Final = {"index": 0, "content_block": {"type": "text", "text": "Sun."}}
TURN: Final = {
    "turn_type": "agent",
    "agent_id": "agent-1",
    "started_at": "2026-01-20T10:00:00.000Z",
    "completed_at": "2026-01-20T10:00:01.000Z",
    "completion_status": "complete",
    "messages": [
        {
            "message_type": "response",
            "timestamp": "2026-01-20T10:00:01.000Z",
            "agent_id": "agent-1",
            "model_name": "gpt-5",
            "parts": [{"part_kind": "text", "content": "Sun."}],
            "usage": SPENT,
        }
    ],
    "total_usage": SPENT,
}


def _agent_framework() -> Iterator[Fields]:
    """Microsoft's Agent Framework tells the run's tokens so far after each call."""
    yield {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
    for call, message in enumerate(("m1", "m2"), 1):
        yield {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"}
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": "Sun."}
        yield {"type": "TEXT_MESSAGE_END", "messageId": message}
        value = {"input_token_count": 100 * call, "output_token_count": 10 * call, "total_token_count": 110 * call}
        yield {"type": "CUSTOM", "name": "usage", "value": value}
        if message == "m1":
            yield {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "get", "parentMessageId": message}
            yield {"type": "TOOL_CALL_END", "toolCallId": "c1"}
            yield {"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "ok"}
    yield {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


MADE: Final[tuple[tuple[str, str, list[Any]], ...]] = (
    ("ag-ui", "made: cumulative usage", list(_agent_framework())),
    (
        "anthropic",
        "made: compaction",
        [
            {"type": "message_start", "message": {**MESSAGE, "usage": {**SPENT, "output_tokens": 1}}},
            {"type": "content_block_start", **BLOCK},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {**SPENT, "iterations": COMPACTED},
            },
            {"type": "message_stop"},
        ],
    ),
    ("thread-protocol", "made: a turn", [{"type": "agent-turn", "turn": TURN}]),
    (
        "vercel-ai",
        "made: metadata",
        list(
            _text(
                {"type": "message-metadata", "messageMetadata": {"usage": {"inputTokens": 7, "outputTokens": 3}}},
                {"type": "finish", "messageMetadata": {"totalUsage": {"inputTokens": 7, "outputTokens": 3}}},
            )
        ),
    ),
)
