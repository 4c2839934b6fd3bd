"""Live text and ends of Pydantic AI's stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.dialects.deltas import shown
from pipeline.dialects.pydantic_ai.events import DELTAS


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools."""
    match event:
        case {"event_kind": "part_start", "part": {"part_kind": "text" | "thinking" as kind, "content": str(text)}}:
            return [Shown(kind, text)]
        case {"event_kind": "function_tool_call", "part": {"tool_name": str(name)}}:
            return [Shown("tool", name)]
    return shown(DELTAS, "event_kind", event)


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a stream, which is the run's result."""
    match event:
        case {"event_kind": "agent_run_result"}:
            return "complete"
    return before
