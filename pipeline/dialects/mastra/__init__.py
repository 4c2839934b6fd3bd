"""The chunks of Mastra's agents: `fullStream`."""

from typing import Any, Final

from pipeline.dialects.kin import kin
from pipeline.dialects.mastra import events
from pipeline.dialects.vercel_ai import DIALECT as OF


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire; a tool's data has a type alone."""
    match event:
        case {"type": str(), "runId": str(), "from": str(), "payload": {}}:
            return True
        case {"type": "object" | "object-result", "from": str(), "object": _} | {"type": "tripwire", "payload": {}}:
            return True
    return False


DIALECT: Final = kin(
    "mastra",
    OF,
    events.translate,
    events.body,
    recognises,
    provider=None,
    more={events.SPENT: events.spent},
    resume=None,
)
