"""pi-agent-core's proxy stream."""

from typing import Any, Final

from pipeline.dialects.pi_agent import shows_of_message
from pipeline.dialects.pi_proxy import events
from pipeline.dialects.records import dialect
from pipeline.dialects.wire_values import ends_by
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss, unnamed

PI_PROXY: Final = (
    unnamed("model and provider from the request body, where the run has it"),
    Loss("provider of a thought", "the request body's", drop.part_fields("thinking", "provider_name")),
    Loss(
        "redacted thinking (before 1.5)",
        "not there",
        drop.parts(lambda part: part["part_kind"] == "thinking" and part.get("thinking_id") == "redacted_thinking"),
    ),
)


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. `start` and `error` are types of other protocols, too."""
    match event:
        case {"type": "start", "messageId": _} | {"type": "start", "messageMetadata": _} | {"payload": _}:
            return False
        case {"type": "error"}:
            return "reason" in event
    return None


DIALECT: Final = dialect(
    __name__,
    history=events.repeated,
    shows=shows_of_message,
    ended=ends_by("type", {"done": "complete", "start": None}),  # a run that calls tools continues
    carriers=(Carrier("pi-proxy", PI_PROXY, over="pi-agent"),),
)
