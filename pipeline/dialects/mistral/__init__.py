"""Mistral's conversations and agents."""

from typing import Any, Final

from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.kin import kin
from pipeline.dialects.mistral import events

KINDS: Final = ("conversation.response.", "message.output.", "function.call.", "tool.execution.", "agent.handoff.")


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire."""
    match event:
        case {"object": "conversation.response", "outputs": list()}:
            return True
        case {"type": str(kind)}:
            return kind.startswith(KINDS)
    return False


DIALECT: Final = kin("mistral", OF, events.translate, events.body, recognises)
