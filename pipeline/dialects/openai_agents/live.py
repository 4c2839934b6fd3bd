"""Single events of the Agents SDK, read without assembling them: for recognition, live readers, and the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.assembly.dialect import Shown


def shows(event: Any) -> Sequence[Shown]:
    """Return text and thoughts of the model's events, and the calls that the SDK executes."""
    match event:
        case {"type": "raw_response_event", "data": data}:
            return shows_of_response(data)
        case {"type": "run_item_stream_event", "item": {"raw_item": {"type": str(kind), "name": str(name)}}}:
            return [Shown("tool", name)] if kind.endswith("_call") else ()
    return ()


def shows_of_response(event: Any) -> Sequence[Shown]:
    """Return the live text of an event of the Responses API."""
    match event:
        case {"type": "response.output_text.delta" | "response.refusal.delta", "delta": str(text)}:
            return [Shown("text", text)]
        case {"type": "response.reasoning_summary_text.delta" | "response.reasoning_text.delta", "delta": str(text)}:
            return [Shown("thinking", text)]
    return ()
