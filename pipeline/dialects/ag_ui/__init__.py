"""AG-UI, the protocol between agents and the interfaces of their users, and its messages."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Resume, Shown, StreamEnd
from pipeline.dialects.ag_ui import events, messages
from pipeline.dialects.deltas import shown
from pipeline.dialects.records import dialect
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import REASONS, Loss, unnamed

AG_UI: Final = (
    unnamed("from the publisher's `run`, where it knows them"),
    REASONS,
    Loss("files of the model", "not there", drop.parts(lambda part: part["part_kind"] == "file")),
    Loss("sources", "not there", drop.events(lambda kind: kind.startswith("source."))),
    Loss("why a call failed", "a text for all", drop.answers(drop.failure)),
    Loss(
        "id, provider and details of texts and thoughts",
        "not there, but in `encryptedValue`",
        drop.part_fields("text", "id", "provider_name", "provider_details"),
    ),
)


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools; not those of sub-agents."""
    match event:
        case {"subagentRunId": str()} | {"subagent_run_id": str()}:
            return ()
        case {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": str(text)}:
            return [Shown("thinking", text)]
        case {"type": "TOOL_CALL_START" | "TOOL_CALL_CHUNK", "toolCallName": str(name)}:
            return [Shown("tool", name)]
    return shown(events.DELTAS, "type", event)


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


DIALECT: Final = dialect(
    __name__,
    AG_UI,
    begin=messages.begin,
    history=messages.repeated,
    resume=Resume(empty=True),  # its client expects RUN_STARTED first
)
