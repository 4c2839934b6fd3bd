"""pi-agent-core's AgentEvents, and the messages that pi keeps."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.dialects.records import dialect
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Loss

PI_AGENT: Final = (
    Loss(
        "files of the model, the provider's own tools",
        "pi has no such content",
        drop.parts(lambda part: part["part_kind"] == "file" or part["part_kind"].startswith("builtin-")),
    ),
    Loss("sources", "pi has none", drop.events(lambda kind: kind.startswith("source."))),
)


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. `message_start` is Anthropic's, too, whose messages have a type."""
    match event:
        case {"type": "message_start", "message": {"type": _}}:
            return False
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools."""
    match event:
        case {"type": "message_update", "assistantMessageEvent": update}:
            return shows_of_message(update)
        case {"type": "tool_execution_start", "toolName": str(name)}:
            return [Shown("tool", name)]
    return ()


def shows_of_message(update: Any) -> Sequence[Shown]:
    """Return the live text of an event of a message; pi's proxy streams only such events."""
    match update:
        case {"type": "text_delta", "delta": str(text)}:
            return [Shown("text", text)]
        case {"type": "thinking_delta", "delta": str(text)}:
            return [Shown("thinking", text)]
    return ()


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of the stream, which is `agent_end`, unless pi tries again."""
    match event:
        case {"type": "agent_end", "willRetry": True} | {"type": "agent_start"}:
            return None
        case {"type": "agent_end"}:
            return "complete"
    return before


DIALECT: Final = dialect(__name__, PI_AGENT)
