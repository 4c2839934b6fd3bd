"""Conversations that fork, go on for long, or have no words of a user."""

import time
from typing import Any

from pipeline.cli.files.recordings import Recording, Stream
from tests.support.forked import spoken
from tests.support.histories import ui
from turnmill.identity import thread_uuid

FORKED = "holiday-77"
LONG = "logbook-3"
NAMELESS = thread_uuid("nobody-asked")[0]
EXCHANGES = 150  # of the long one: two turns each
ASKED = "Where should we go in May?"
MORE = "And with two children?"
OTHER = "And with a dog?"


def runs() -> list[Recording]:
    """All of them, as if they had been an hour ago."""
    then = _then()
    turns = [event for number in range(EXCHANGES) for event in _exchange(number, then + 1000 * number)]
    long = _run(LONG, "logbook", turns, then, dialect="thread-protocol")
    return [*forked(), _run(NAMELESS, "nobody-asked-1", spoken("vercel-ai", "Backup done."), then), long]


def forked() -> list[Recording]:
    """The conversation that forks, a minute between two runs."""
    asked = [
        ("first", "Lisbon: mild, and by the sea.", ui(ASKED), "submit-message"),
        ("again", "Crete: warm already, and quiet.", ui(ASKED), "regenerate-message"),
        ("children", "Crete has shallow bays.", ui(ASKED, "Crete: warm already, and quiet.", MORE), "submit-message"),
        (
            "dog",
            "Then rather the Alps, by train.",
            ui(ASKED, "Crete: warm already, and quiet.", OTHER, ids={OTHER: MORE}),
            "submit-message",
        ),
    ]
    return [
        _run(FORKED, f"holiday-{name}", spoken("vercel-ai", said), _then() + 60_000 * n, request=_body(body, trigger))
        for n, (name, said, body, trigger) in enumerate(asked)
    ]


def _then() -> int:
    return int(time.time() * 1000) - 3_600_000


def _body(messages: list[dict[str, Any]], trigger: str) -> dict[str, Any]:
    return {"messages": messages, "trigger": trigger}


def _run(
    thread: str, run: str, events: list[dict[str, Any]], at: int, dialect: str = "vercel-ai", **info: Any
) -> Stream:
    known = {"agent_name": "Guide", "model_name": "gpt-5-mini", "provider_name": "openai", **info}
    return Stream("forks", dialect, thread, run, "guide", tuple(events), known, at, "complete")


def _exchange(number: int, at: int) -> list[dict[str, Any]]:
    asked, begun, done = (_iso(at + 100 * step) for step in range(3))
    said = {"part_kind": "text", "content": f"Noted: entry {number} of the **logbook**."}
    response = {"message_type": "response", "timestamp": begun, "agent_id": "guide", "parts": [said]}
    prompt = {"part_kind": "user-prompt", "content": f"Entry {number}, please."}
    agent = {"turn_type": "agent", "agent_id": "guide", "started_at": begun, "completed_at": done}
    return [
        {"type": "user-turn", "turn": {"turn_type": "user", "submitted_at": asked, "parts": [prompt]}},
        {"type": "agent-turn", "turn": {**agent, "completion_status": "complete", "messages": [response]}},
    ]


def _iso(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000)) + f".{at % 1000:03d}Z"
