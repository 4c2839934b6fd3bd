"""Live text and ends of a UI message stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Resume, Shown, StreamEnd
from pipeline.dialects.deltas import shown
from pipeline.dialects.vercel_ai.events import DELTAS

# `useChat({resume: true})`
RESUME: Final = Resume(headers={"x-vercel-ai-ui-message-stream": "v1"})


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. Others have `error`, too; types of data and tools contain names."""
    match event:
        case {"type": "error"}:
            return "errorText" in event
        case {"type": str(kind)} if kind.startswith(("data-", "tool-")):
            return True
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools."""
    match event:
        case {"type": "tool-input-available", "toolName": str(name)}:
            return [Shown("tool", name)]
    return shown(DELTAS, "type", event)


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a stream: `finish` or `abort`; a later `start` opens it again."""
    match event:
        case {"type": "finish"}:
            return "complete"
        case {"type": "abort"}:
            return "aborted"
        case {"type": "start"}:
            return None
    return before
