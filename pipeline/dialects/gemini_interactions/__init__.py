"""Gemini's Interactions API."""

from typing import Any, Final

from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.gemini_interactions import events
from pipeline.dialects.kin import kin


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire."""
    match event:
        case {"event_type": str(kind)}:
            return kind.startswith(("interaction.", "step.", "content.")) or (kind == "error" and "error" in event)
        case {"object": "interaction", "status": str()}:
            return True
    return False


DIALECT: Final = kin("gemini-interactions", OF, events.translate, events.body, recognises, provider="gemini")
