"""Google's Gemini API (`generateContent`, `streamGenerateContent`), and its contents."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Format, Shown, StreamEnd
from pipeline.dialects import model_calls
from pipeline.dialects.gemini import request
from pipeline.dialects.google_adk import formats, shown_of_parts
from pipeline.dialects.records import dialect
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import PROVIDER, Loss

GEMINI: Final = (
    PROVIDER,
    Loss("ids of texts and thoughts", "not there", drop.part_fields("text", "id")),
)


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. Responses have no type; `turnmill.request` occurs elsewhere, too."""
    match event:
        case {"type": "turnmill.request", "request": {"contents": _} | {"request": {"contents": _}}}:
            return True
        case {"type": str(kind)}:
            return None if kind == "turnmill.error" else False
        case {"author": _} | {"invocationId": _} | {"invocation_id": _}:  # Events of ADK
            return False
        case {"candidates": [*_]} | {"promptFeedback": {}} | {"usageMetadata": {}, "modelVersion": str()}:
            return True
        case {"response": {"candidates": [*_]}} | {"event": None, "data": [{"candidates": [*_]}, *_]}:
            return True
        case {"error": {"code": int(), "status": str()}}:
            return True
    return False


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of functions."""
    return [shown for response in _responses(event) for shown in _of(response)]


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a stream: a `finishReason` ends a call, the next request begins another.

    An error is not an end.
    """
    match event:
        case {"type": "turnmill.request" | "turnmill.error"}:
            return None
    for response in _responses(event):
        match response:
            case {"error": failure} if failure:
                before = None
            case {"candidates": [{"finishReason": str(reason), **candidate}, *_]} if not candidate.get("index"):
                before = before if reason == "FINISH_REASON_UNSPECIFIED" else "complete"
            case {"promptFeedback": {"blockReason": str()}}:
                before = "complete"
    return before


def _responses(event: Any) -> list[Any]:
    match event:
        case {"event": None, "data": list(several)}:
            return several
        case {"response": response}:
            return [response]
    return [event]


def _of(response: Any) -> list[Shown]:
    match response:
        case {"candidates": [{"content": {"parts": list(parts)}, **candidate}, *_]} if not candidate.get("index"):
            return [shown for shown in shown_of_parts(parts) if shown.text]
    return []


DIALECT: Final = dialect(
    __name__,
    GEMINI,
    history=request.READER.history,
    finish=model_calls.finish,
    formats=(Format("gemini", formats.contents, formats.READER),),
)
