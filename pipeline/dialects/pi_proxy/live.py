"""The end of a stream of pi's proxy."""

from __future__ import annotations

from typing import Any

from pipeline.assembly.dialect import StreamEnd


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. `start` and `error` are types of other protocols, too."""
    match event:
        case {"type": "start", "messageId": _} | {"type": "start", "messageMetadata": _}:
            return False
        case {"type": "error"}:
            return "reason" in event
    return None


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a stream: `done` ends a body; a run that calls tools continues with the next one's `start`."""
    match event:
        case {"type": "done"}:
            return "complete"
        case {"type": "start"}:
            return None
    return before
