"""Real streams with something wrong in them: a dead letter or a turn, never one that nobody can build."""

import random
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from pipeline.turns.thread_document import thread_document
from tests.support.fleet import START
from topics import json_text, telemetry, turn_record
from turnmill.wire.envelope import encode
from turnmill.wire.framing import decode

CORPUS = Path(__file__).parent.parent / "corpus"
FILES = {
    "a2a": "*.sse",
    "acp": "*.jsonl",
    "ag-ui": "*.sse",
    "agents-sdk": "*.sse",
    "anthropic": "*.sse",
    "bedrock": "*.*",
    "claude-code": "*.jsonl",
    "codex": "*.jsonl",
    "cohere": "*.*",
    "gemini": "*.sse",
    "gemini-cli": "*.jsonl",
    "gemini-interactions": "*.*",
    "google-adk": "*.jsonl",
    "langgraph": "*.*",
    "mastra": "*.jsonl",
    "mistral": "*.*",
    "ollama": "*.jsonl",
    "openai-agents": "*.jsonl",
    "openai-agents-js": "*.jsonl",
    "openai-chat": "*.sse",
    "openai-realtime": "*.jsonl",
    "openai-responses": "*.sse",
    "opencode": "*.jsonl",
    "otel": "*.jsonl",
    "pi-agent": "*.jsonl",
    "pi-proxy": "*.sse",
    "pydantic-ai": "*.jsonl",
    "strands": "*.jsonl",
    "vercel-ai": "*.sse",
}
DEEP: Any = json_text.loads("[" * 300 + "]" * 300)
HOSTILE: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        1.5,
        2**70,
        "",
        "text",
        "\0",
        "\ud800",
        "__proto__",
        [],
        {},
        [None],
        [[]],
        {"": None},
        {"type": "x"},
    ),
    *({"__proto__": {"x": 1}}, "x" * 2000, DEEP, ["\udfff"], {"\ud800": 2**64}),
]


@cache
def streams(dialect: str) -> list[list[Any]]:
    folders = (CORPUS / dialect, CORPUS / "wires" / dialect, CORPUS / "model_runs" / dialect)
    found = (
        file for folder in folders for file in sorted(folder.rglob(FILES[dialect])) if not file.name.endswith(".json")
    )
    files = [file for file in found if file.stat().st_size < 200_000]
    framed = [decode(file.read_bytes(), DIALECTS[dialect].wire) for file in files]
    found = [[item.event for item in items if item.event is not None] for items in framed]
    return [events for events in found if events]


def broken(value: Any, rng: random.Random) -> Any:
    """The same JSON with one of its values replaced, left out or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: broken(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        if rng.random() < 0.2:
            return [*value[:at], *value[at + 1 :]]
        return [*value[:at], broken(value[at], rng), *value[at + 1 :]]
    return rng.choice(HOSTILE)


@pytest.mark.parametrize("dialect", FILES)
@settings(max_examples=150)
@given(seed=st.integers(0, 10**9))
def test_whatever_an_event_holds(dialect: str, seed: int) -> None:
    rng = random.Random(seed)
    events = list(rng.choice(streams(dialect)))[:400]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(events))
        change = rng.random()
        if change < 0.6:
            events[at] = broken(events[at], rng)
        elif change < 0.8:
            events.insert(at, rng.choice(events))
        elif len(events) > 1:
            del events[at]
    thread_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    fixed = {"v": 1, "thread_id": thread_id, "run_id": "r", "agent_id": "a", "dialect": dialect}
    request = {"run": {"request": broken({"messages": [{"role": "user", "content": "hi"}], "prompt": "x"}, rng)}}
    values = [
        encode({**fixed, "seq": n, "ts": START + n, "events": [event], **({} if n else request)})
        for n, event in enumerate(events)
    ]
    end = rng.choice(["complete", "aborted", "error", "disconnected"])
    values.append(encode({**fixed, "seq": len(events), "ts": START, "events": [], "end": end}))
    partition = Partition(DIALECTS, Limits(), 0)
    partition.feed([StoredRecord(value, n, START + n) for n, value in enumerate(values)])
    assert partition.open_runs() == 0
    assert not [refused.detail for refused in partition.out.dead if "could not be built" in refused.detail]
    assert partition.out.turns or dialect == "otel"  # a trace that calls no model has no turn
    records = [turn_record.decode(turn_record.encode(record)) for record in partition.out.turns]
    assert json_text.dumps(thread_document(thread_id, records))
    for record in partition.out.telemetry:
        telemetry.decode(telemetry.encode(record))
