"""Claude Code's stream-json, which is what its Agent SDK reads, too."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.dialects.anthropic import shown_of_block
from pipeline.dialects.records import dialect
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Loss

CLAUDE_CODE: Final = (
    Loss("provider", "`anthropic`, or from the publisher's `run`", drop.response_fields("provider_name")),
    Loss("ids of texts and thoughts", "not there", drop.part_fields("text", "id")),
)


def conversation(event: Any) -> str | None:
    """Return the session's id, which each line has."""
    match event:
        case {"session_id": str(name)} if name:
            return name
    return None


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. `user` and `result` are types of other programs, too."""
    match event:
        case {"type": "user" | "assistant"}:
            return "message" in event
        case {"type": "system" | "result"}:
            return "subtype" in event
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Return whole blocks of the main conversation. Deltas of partial messages are left out: the blocks repeat them."""
    match event:
        case {"parent_tool_use_id": str()} | {"is_api_error_message": True}:
            return ()
        case {"type": "assistant", "message": {"content": str(text)}} if text:
            return [Shown("text", text)]
        case {"type": "assistant", "message": {"content": list(blocks)}}:
            return [shown for block in blocks for shown in shown_of_block(block) if shown.text]
    return ()


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a stream: a `result` without error is a good one; a run may continue after it."""
    match event:
        case {"type": "result", "subtype": "success", "is_error": True}:
            return None
        case {"type": "result", "subtype": "success"}:
            return "complete"
        case {"type": "result", "terminal_reason": str(reason)} if reason.startswith("aborted"):
            return "aborted"
        case {"type": "result"} | {"type": "system", "subtype": "init"}:
            return None
        case {"type": "assistant" | "stream_event"} if event.get("parent_tool_use_id") is None:
            return None
    return before


DIALECT: Final = dialect(__name__, CLAUDE_CODE)
