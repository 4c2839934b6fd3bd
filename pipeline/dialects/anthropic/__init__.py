"""Anthropic's Messages API, and its messages."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.dialects import model_calls
from pipeline.dialects.anthropic import events, request
from pipeline.dialects.deltas import shown
from pipeline.dialects.records import dialect
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import PROVIDER, Loss

ANTHROPIC: Final = (
    PROVIDER,
    Loss("id of a thought", "not there", drop.part_fields("thinking", "thinking_id")),
)


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. `error` and the requests of other servers occur elsewhere, too."""
    match event:
        case {"type": "error", "error": error}:
            return isinstance(error, dict) and ("type" in error or "message" in error)
        case {"type": "message"}:
            return isinstance(event.get("content"), list)
        case {"type": "error"} | {"type": "turnmill.request", "request": {"input": _} | {"contents": _}}:
            return False
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools."""
    match event:
        case {"type": "content_block_start", "content_block": block}:
            return shown_of_block(block)
        case {"type": "message_start", "message": {"content": list(blocks)}} | {
            "type": "message",
            "content": list(blocks),
        }:
            return [piece for block in blocks for piece in shown_of_block(block)]
    return shown(events.DELTAS, "type", event)


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a stream: `message_stop` ends a call, the next call begins again; an error is no good end."""
    match event:
        case {"type": "message_stop" | "message"}:
            return "complete"
        case {"type": "turnmill.request" | "turnmill.error" | "message_start" | "error"}:
            return None
    return before


def shown_of_block(block: Any) -> Sequence[Shown]:
    """Return the text, thought or call of a content block."""
    match block:
        case {"type": "text", "text": str(text)} if text:
            return [Shown("text", text)]
        case {"type": "thinking", "thinking": str(text)} if text:
            return [Shown("thinking", text)]
        case {"type": "tool_use" | "server_tool_use" | "mcp_tool_use", "name": str(name)}:
            return [Shown("tool", name)]
    return ()


DIALECT: Final = dialect(__name__, ANTHROPIC, history=request.READER.history, finish=model_calls.finish)
