"""Single events of the Agents SDK, read without assembling them: for recognition, live readers, and the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.assembly.dialect import Shown
from pipeline.dialects.deltas import shown
from pipeline.dialects.responses_progress import DELTAS


def shows(event: Any) -> Sequence[Shown]:
    """Return text and thoughts of the model's events, and the calls that the SDK executes."""
    match event:
        case {"type": "raw_response_event", "data": data}:
            return shown(DELTAS, "type", data)
        case {"type": "run_item_stream_event", "item": {"raw_item": {"type": str(kind), "name": str(name)}}}:
            return [Shown("tool", name)] if kind.endswith("_call") else ()
    return ()
