"""One line in `turnmill.wire.registry`, one folder in `pipeline/dialects`: neither is there without the other."""

import ast
from pathlib import Path
from typing import Any

import pytest

import pipeline.dialects
from pipeline.assembly.dialect import Dialect, Shown
from pipeline.dialects import DIALECTS, FORMATS, shown, text_of
from pipeline.dialects.shared_hash import CARRIERS
from tests.bench.streams import STREAMS
from turnmill.wire.registry import WIRES

FOLDER = Path(pipeline.dialects.__file__).parent
STARTED = {"event": "tool-started", "tool_name": "search"}
SILENT = "thread-protocol"  # its turns are whole: nothing is shown while they come
ENDLESS = frozenset(
    {"google-adk", "openai-agents", "openai-agents-js", "otel"}
)  # their streams just stop: the publisher says how they ended

# What no reader may stumble over.
ODD: list[Any] = [
    None,
    7,
    [],
    {},
    {"type": "text-delta", "delta": 5},
    {"type": "message_update", "assistantMessageEvent": "x"},
    {"event_kind": "part_delta", "delta": []},
    {"event_kind": "part_start", "part": {"part_kind": ["text"], "content": "x"}},
    {"event": "message.delta", "data": None},
    {"event": None, "data": [["x"]]},
    {"partial": True, "content": {"parts": ["x", {"text": 5}]}},
    {"type": "raw_response_event", "data": ["x"]},
    {"type": "run_item_stream_event", "item": {"raw_item": 5}},
]


def line(block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [block]}}


def test_each_line_has_its_folder_and_each_folder_its_line() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert folders == {name.replace("-", "_") for name in WIRES}


@pytest.mark.parametrize("name", WIRES)
def test_a_folder_says_all_that_is_asked_of_a_wire(name: str) -> None:
    dialect = DIALECTS[name]
    assert isinstance(dialect, Dialect)
    assert (dialect.name, dialect.wire) == (name, WIRES[name])
    # From its source: where a module is compiled, it has no docstring.
    source = (FOLDER / name.replace("-", "_") / "events.py").read_text(encoding="utf-8")
    assert "|---|---|" in str(ast.get_docstring(ast.parse(source))), "its page shows this table"
    assert name in CARRIERS
    assert all(carrier.over is None or carrier.over in CARRIERS for carrier in dialect.carriers)
    assert all(FORMATS[form.name] is form for form in dialect.formats), "two wires have a format of one name"


@pytest.mark.parametrize("name", sorted(WIRES.keys() - {SILENT}))
def test_a_stream_shows_its_text_and_says_when_it_is_over(name: str) -> None:
    dialect = DIALECTS[name]
    events = STREAMS[name](["Hel", "lo"])
    assert text_of(name, events) == "Hello"
    if name == "pydantic-ai":  # what a server streams of it has no result
        events.append({"event_kind": "agent_run_result"})
    before = None
    for event in events[:-1]:
        before = dialect.ended(event, before)
        assert before is None
    assert dialect.ended(events[-1], before) == (None if name in ENDLESS else "complete")


@pytest.mark.parametrize(
    ("name", "event", "piece"),
    [
        ("ag-ui", {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m", "delta": "Hm"}, Shown("thinking", "Hm")),
        ("ag-ui", {"type": "TOOL_CALL_START", "toolCallName": "search"}, Shown("tool", "search")),
        ("claude-code", line({"type": "thinking", "thinking": "Hm"}), Shown("thinking", "Hm")),
        ("claude-code", line({"type": "tool_use", "name": "search"}), Shown("tool", "search")),
        ("langgraph", {"type": "event", "method": "tools", "params": {"data": STARTED}}, Shown("tool", "search")),
        ("vercel-ai", {"type": "reasoning-delta", "delta": "Hm"}, Shown("thinking", "Hm")),
        ("vercel-ai", {"type": "tool-input-available", "toolName": "search"}, Shown("tool", "search")),
        ("pydantic-ai", {"event_kind": "function_tool_call", "part": {"tool_name": "search"}}, Shown("tool", "search")),
        (
            "pydantic-ai",
            {"event_kind": "part_delta", "delta": {"part_delta_kind": "thinking", "content_delta": "Hm"}},
            Shown("thinking", "Hm"),
        ),
        ("pi-agent", {"type": "tool_execution_start", "toolName": "search"}, Shown("tool", "search")),
        ("pi-proxy", {"type": "thinking_delta", "delta": "Hm"}, Shown("thinking", "Hm")),
        ("agents-sdk", {"event": "tool.call", "data": {"toolName": "search"}}, Shown("tool", "search")),
        (
            "gemini",
            {"candidates": [{"content": {"parts": [{"text": "Hm", "thought": True}]}}]},
            Shown("thinking", "Hm"),
        ),
        (
            "gemini",
            {"candidates": [{"content": {"parts": [{"functionCall": {"name": "search"}}]}}]},
            Shown("tool", "search"),
        ),
        (
            "google-adk",
            {"partial": True, "content": {"parts": [{"text": "Hm", "thought": True}]}},
            Shown("thinking", "Hm"),
        ),
        ("google-adk", {"content": {"parts": [{"functionCall": {"name": "search"}}]}}, Shown("tool", "search")),
        (
            "openai-agents",
            {"type": "raw_response_event", "data": {"type": "response.reasoning_text.delta", "delta": "Hm"}},
            Shown("thinking", "Hm"),
        ),
        (
            "openai-agents",
            {"type": "run_item_stream_event", "item": {"raw_item": {"type": "function_call", "name": "search"}}},
            Shown("tool", "search"),
        ),
    ],
)
def test_thoughts_and_tools_are_shown(name: str, event: dict[str, Any], piece: Shown) -> None:
    assert list(shown(name, event)) == [piece]
    assert text_of(name, [event]) == ""


@pytest.mark.parametrize("event", ODD)
def test_what_is_no_event_says_nothing(event: Any) -> None:
    for name, dialect in DIALECTS.items():
        assert list(shown(name, event)) == []
        assert dialect.conversation(event) is None
        if name != SILENT:
            assert dialect.ended(event, None) is None
            assert dialect.ended(event, "complete") == "complete"
    assert list(shown("no-such", event)) == []
