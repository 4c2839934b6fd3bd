"""The stream events of OpenAI's Agents SDK."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Shown
from pipeline.dialects.deltas import shown
from pipeline.dialects.openai_agents import events
from pipeline.dialects.records import dialect
from pipeline.dialects.responses_progress import DELTAS
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Loss

OPENAI_AGENTS: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name")),
    Loss(
        "whether a call failed",
        "`success`",
        drop.answers(lambda part: {key: value for key, value in part.items() if key != "status"}),
    ),
)


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. The SDK for JavaScript writes other names."""
    match event:
        case {"item": {"rawItem": _}} | {"type": "agent_updated_stream_event", "agent": _}:
            return False
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Return text and thoughts of the model's events, and the calls that the SDK executes."""
    match event:
        case {"type": "raw_response_event", "data": data}:
            return shown(DELTAS, "type", data)
        case {"type": "run_item_stream_event", "item": {"raw_item": {"type": str(kind), "name": str(name)}}}:
            return [Shown("tool", name)] if kind.endswith("_call") else ()
    return ()


DIALECT: Final = dialect(__name__, OPENAI_AGENTS, history=events.repeated)
