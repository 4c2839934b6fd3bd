"""Single events of AG-UI, read without assembling them: for recognition, live readers, and the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Resume, Shown, StreamEnd
from pipeline.dialects.ag_ui.events import DELTAS
from pipeline.dialects.deltas import shown

RESUME: Final = Resume(empty=True)  # its client expects RUN_STARTED first


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools; not those of sub-agents."""
    match event:
        case {"subagentRunId": str()} | {"subagent_run_id": str()}:
            return ()
        case {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": str(text)}:
            return [Shown("thinking", text)]
        case {"type": "TOOL_CALL_START" | "TOOL_CALL_CHUNK", "toolCallName": str(name)}:
            return [Shown("tool", name)]
    return shown(DELTAS, "type", event)


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a stream, which is RUN_FINISHED; a RUN_STARTED after it begins a new run."""
    match event:
        case {"type": "RUN_FINISHED", "outcome": {"type": "cancelled"}}:
            return "aborted"
        case {"type": "RUN_FINISHED"}:
            return "complete"
        case {"type": "RUN_STARTED"}:
            return None
    return before


def conversation(event: Any) -> str | None:
    """Return the thread that RUN_STARTED names."""
    match event:
        case {"type": "RUN_STARTED", "threadId": str(thread)} | {"type": "RUN_STARTED", "thread_id": str(thread)}:
            return thread or None
    return None
