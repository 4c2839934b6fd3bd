"""OpenAI's Realtime API: what a session's WebSocket or data channel says."""

from typing import Any, Final

from pipeline.dialects.kin import kin
from pipeline.dialects.openai_realtime import events
from pipeline.dialects.openai_responses import DIALECT as OF
from pipeline.dialects.wire_values import line_of

KINDS: Final = ("session.", "conversation.", "input_audio_buffer.", "output_audio_buffer.", "response.", "rate_limits.")


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire: all of the server's have an `event_id`."""
    match line_of(event):
        case {"type": str(kind), "event_id": str()}:
            return kind.startswith(KINDS) or kind == "error"
        case {"type": "session.update", "session": {}} | {"type": "conversation.item.create", "item": {}}:
            return True
        case {"type": "response.create" | "response.cancel"}:
            return True
    return False


DIALECT: Final = kin("openai-realtime", OF, events.translate, lambda request: request, recognises, provider="openai")
