"""Ollama's API: JSON lines, each a piece of a message."""

from typing import Any, Final

from pipeline.dialects.kin import kin
from pipeline.dialects.ollama import events
from pipeline.dialects.openai_chat import DIALECT as OF


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire."""
    match event:
        case {"model": str(), "created_at": str(), "done": bool(), "message": {}} | {
            "model": str(),
            "created_at": str(),
            "done": bool(),
            "response": str(),
        }:
            return True
        case {"error": str()}:
            return len(event) == 1
    return False


DIALECT: Final = kin("ollama", OF, events.translate, events.body, recognises)
