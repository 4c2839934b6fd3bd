"""Bedrock's Converse API: streams in binary frames, and their JSON as AWS's SDKs yield it."""

from typing import Any, Final

from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.bedrock import events
from pipeline.dialects.kin import kin

KINDS: Final = frozenset({"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop"})


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire: each has a single key, its type."""
    kind = next(iter(event), "") if isinstance(event, dict) and len(event) == 1 else ""
    match event:
        case {"metadata": {"usage": {"inputTokens": _}}} | {"output": {"message": {"content": list()}}}:
            return True
        case {"chunk": {"bytes": _}}:
            return bool(kind)
    return (kind in KINDS or kind.endswith(events.FAILED)) and isinstance(event[kind], dict)


DIALECT: Final = kin("bedrock", OF, events.translate, events.body, recognises, more=events.HANDLERS)
