"""The end of a stream of pi's proxy."""

from __future__ import annotations

from typing import Any

from pipeline.assembly.dialect import StreamEnd


def recognises(event: Any) -> bool | None:
    """`start` and `error` are types of other protocols, too."""
    match event:
        case {"type": "start", "messageId": _} | {"type": "start", "messageMetadata": _}:
            return False
        case {"type": "error"}:
            return "reason" in event
    return None


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """`done` ends a body; a run that calls tools goes on with the `start` of the next one."""
    match event:
        case {"type": "done"}:
            return "complete"
        case {"type": "start"}:
            return None
    return before
