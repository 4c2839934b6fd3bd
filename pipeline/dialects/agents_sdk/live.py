"""Live text and ends of the Agents SDK's stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.assembly.dialect import Shown, StreamEnd


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. Its data has no type; other protocols repeat the event's name there."""
    match event:
        case {"data": {"type": str()}}:
            return False
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Return the text as it comes, and the calls of tools."""
    match event:
        case {"event": "message.delta", "data": {"delta": str(text)}}:
            return [Shown("text", text)]
        case {"event": "tool.call", "data": {"name": str(name)} | {"toolName": str(name)}}:
            return [Shown("tool", name)]
    return ()


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of the stream, which is `done`."""
    match event:
        case {"event": "done"}:
            return "complete"
    return before


def conversation(event: Any) -> str | None:
    """Return the conversation's id from the `meta` event, for streams whose envelope has no thread id."""
    match event:
        case {"event": "meta", "data": dict(data)}:
            identity = data.get("conversationId") or data.get("sessionId")
            return identity if isinstance(identity, str) else None
    return None
