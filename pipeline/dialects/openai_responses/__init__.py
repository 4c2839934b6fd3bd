"""OpenAI's Responses API, and its items."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Resume, Shown, StreamEnd
from pipeline.dialects import model_calls
from pipeline.dialects.deltas import shown
from pipeline.dialects.openai_responses import request
from pipeline.dialects.records import dialect
from pipeline.dialects.responses_progress import DELTAS, is_progress
from pipeline.dialects.wire_values import number_or_none
from pipeline.turns.losses import PROVIDER


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. `error` and other servers' requests occur elsewhere, too."""
    match event:
        case {"event_id": _}:  # of the Realtime API, whose events have the same types
            return False
        case {"type": "error"}:
            return "sequence_number" in event or ("code" in event and "message" in event)
        case {"type": "turnmill.request", "request": {"messages": _} | {"contents": _}}:
            return False
        case {"object": "response"}:
            return True
        case {"type": str(kind)} if kind.startswith("response.") and is_progress(kind):
            return True
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools."""
    match event:
        case {"type": "response.output_item.added", "item": {"type": str(kind), "name": str(name)}} if kind.endswith(
            "_call"
        ):
            return [Shown("tool", name)]
        case {"type": "response.output_item.added", "item": {"type": str(kind)}} if kind.endswith("_call"):
            return [Shown("tool", kind.removesuffix("_call"))]
    return shown(DELTAS, "type", event)


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a call: `response.completed` or `response.incomplete`; the next call begins again.

    In a lane of a WebSocket, and after a steered answer, another call may be under way, or follows.
    """
    match event:
        case {"type": str(kind), "stream_id": str()} if kind.startswith("response."):
            return None
        case {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "steered"}}}:
            return None
        case {"type": "response.completed" | "response.incomplete"} | {"object": "response", "status": "completed"}:
            return "complete"
        case {"type": "turnmill.request" | "turnmill.error"}:
            return None
        case {"type": "response.failed" | "error"} if before is None:
            return None
    return before


def asks(event: Any) -> bool:
    """Return True if a call begins here: the event is the publisher's, not a server's."""
    return isinstance(event, dict) and event.get("type") in (model_calls.REQUEST, model_calls.ERROR)


def number(event: Any) -> int | None:
    """Return the `sequence_number`, which counts within one call."""
    return number_or_none(event.get("sequence_number")) if isinstance(event, dict) else None


DIALECT: Final = dialect(
    __name__,
    (PROVIDER,),
    history=request.READER.history,
    # `client.responses.retrieve(ID, stream=True, starting_after=NUMBER)`
    resume=Resume(begins=asks, number=number, sent=lambda event: not asks(event)),
)
