"""The Agents SDK streaming contract."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Shown
from pipeline.dialects.agents_sdk import events
from pipeline.dialects.records import dialect
from pipeline.dialects.wire_values import ends_by, text_or_none
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import EARLIER_REASONS, Loss

AGENTS_SDK: Final = (
    Loss(
        "provider, response id",
        "not there, unless the publisher knows the provider",
        drop.response_fields("provider_name", "provider_response_id"),
    ),
    EARLIER_REASONS,
    Loss(
        "thinking, files, the provider's own tools",
        "not there; an event of an unknown name is kept as a system message",
        drop.parts(lambda part: part["part_kind"] in ("thinking", "file") or part["part_kind"].startswith("builtin-")),
    ),
    Loss(
        "ids of texts",
        "not there; messageId serves only to tell messages apart",
        drop.part_fields("text", "id", "provider_name", "provider_details"),
    ),
)


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


def conversation(event: Any) -> str | None:
    """Return the conversation's id from the `meta` event, for streams whose envelope has no thread id."""
    match event:
        case {"event": "meta", "data": dict(data)}:
            return text_or_none(data.get("conversationId") or data.get("sessionId"))
    return None


DIALECT: Final = dialect(__name__, AGENTS_SDK, history=events.repeated, ended=ends_by("event", {"done": "complete"}))
