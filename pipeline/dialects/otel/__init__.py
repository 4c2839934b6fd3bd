"""OpenTelemetry's spans of models and agents, as the gateway takes them by OTLP."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Shown
from pipeline.dialects.openai_chat import shows as shows_answer
from pipeline.dialects.otel.calls import call_of
from pipeline.dialects.otel.spans import trace_of
from pipeline.dialects.records import dialect
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Loss

PROVIDER: Final = Loss(
    "provider, id of the answer",
    "as far as spans have them",
    drop.response_fields("provider_name", "provider_response_id"),
)


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire."""
    match event:
        case {"type": "span" | "log", "trace_id": str(), "span_id": str(), "attributes": dict()}:
            return True
    return False


def shows(event: Any) -> Sequence[Shown]:
    """Return what a model has answered, once its call is over."""
    try:
        answers = [call_of(span, ()).answer for span in trace_of([event]).calls]
    except (KeyError, TypeError, ValueError, AttributeError):  # any JSON may be here
        return ()
    return [piece for answer in answers for piece in shows_answer({"choices": [{"message": answer}]})]


DIALECT: Final = dialect(__name__, (PROVIDER,))
