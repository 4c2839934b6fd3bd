"""Cohere's chat API, version 2."""

from typing import Any, Final

from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.cohere import events
from pipeline.dialects.kin import kin

KINDS: Final = ("message-", "content-", "tool-plan-", "tool-call-", "citation-")


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire: others have types of the same names."""
    match event:
        case {"type": "message-end", "delta": {"finish_reason": _}}:
            return True
        case {"type": str(kind), "delta": {"message": {}}}:
            return kind.startswith(KINDS)
        case {"type": "content-end" | "tool-call-end" | "citation-end", "index": int()}:
            return len(event) == 2
        case {"id": str(), "finish_reason": str(), "message": {"role": "assistant"}}:
            return True
    return False


DIALECT: Final = kin("cohere", OF, events.translate, events.body, recognises)
