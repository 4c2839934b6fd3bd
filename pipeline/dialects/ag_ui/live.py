"""Single events of AG-UI, read without assembling them: for recognition, live readers, and the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Resume, Shown, StreamEnd

RESUME: Final = Resume(empty=True)  # its client begins with RUN_STARTED


def shows(event: Any) -> Sequence[Shown]:
    """Text and thoughts as they come, and the calls of tools; not those of sub-agents."""
    match event:
        case {"subagentRunId": str()} | {"subagent_run_id": str()}:
            return ()
        case {"type": "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_CHUNK", "delta": str(text)}:
            return [Shown("text", text)]
        case {
            "type": "REASONING_MESSAGE_CONTENT" | "REASONING_MESSAGE_CHUNK" | "THINKING_TEXT_MESSAGE_CONTENT",
            "delta": str(text),
        }:
            return [Shown("thinking", text)]
        case {"type": "TOOL_CALL_START" | "TOOL_CALL_CHUNK", "toolCallName": str(name)}:
            return [Shown("tool", name)]
    return ()


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """RUN_FINISHED is the end; a RUN_STARTED behind it begins anew."""
    match event:
        case {"type": "RUN_FINISHED", "outcome": {"type": "cancelled"}}:
            return "aborted"
        case {"type": "RUN_FINISHED"}:
            return "complete"
        case {"type": "RUN_STARTED"}:
            return None
    return before


def conversation(event: Any) -> str | None:
    """RUN_STARTED names the thread."""
    match event:
        case {"type": "RUN_STARTED", "threadId": str(thread)} | {"type": "RUN_STARTED", "thread_id": str(thread)}:
            return thread or None
    return None
