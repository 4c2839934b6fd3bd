"""Pydantic AI's event stream, and its messages."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Format, Shown
from pipeline.dialects.deltas import shown
from pipeline.dialects.pydantic_ai import events, formats
from pipeline.dialects.pydantic_ai.formats import parse
from pipeline.dialects.records import dialect
from pipeline.dialects.wire_values import ends_by
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import REASONS, RETRIES, Carrier, Loss, unnamed

PYDANTIC_AI: Final = (
    Loss(
        "how a run without result ended",
        "the publisher says it (`end`); the error's text stays with the application",
        lambda turn: drop.events(lambda kind: kind == "error")(drop.turn_fields("interruption")(turn)),
    ),
    Loss(
        "sources",
        "citations of a text stay in the text part; what a tool puts into its result's metadata stays there",
        drop.events(lambda kind: kind.startswith("source.")),
    ),
)

EVENTS_ALONE: Final = (unnamed("model and provider from the publisher's `run`, where it knows them"), REASONS, RETRIES)


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools."""
    match event:
        case {"event_kind": "part_start", "part": {"part_kind": "text" | "thinking" as kind, "content": str(text)}}:
            return [Shown(kind, text)]
        case {"event_kind": "function_tool_call", "part": {"tool_name": str(name)}}:
            return [Shown("tool", name)]
    return shown(events.DELTAS, "event_kind", event)


DIALECT: Final = dialect(
    __name__,
    history=events.repeated,
    ended=ends_by("event_kind", {"agent_run_result": "complete"}),
    carriers=(
        Carrier("pydantic-ai", PYDANTIC_AI),
        Carrier("pydantic-ai (events alone)", EVENTS_ALONE, over="pydantic-ai"),
    ),
    formats=(
        Format("pydantic-ai", formats.messages, formats.READER, options={"for_version": parse, "viewing_agent": str}),
    ),
)
