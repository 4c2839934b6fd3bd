"""Bedrock's Converse API: streams in binary frames, and their JSON as AWS's SDKs yield it."""

from typing import Any, Final

from pipeline.assembly.dialect import Dialect
from pipeline.dialects.anthropic import ANTHROPIC
from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.bedrock import events
from pipeline.dialects.kin import kin
from pipeline.turns.losses import Carrier

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


DIALECT: Final[Dialect] = kin(
    "bedrock",
    OF,
    events.translate,
    events.body,
    recognises,
    provider="bedrock",
    more=events.HANDLERS,
    carriers=(Carrier("bedrock", ANTHROPIC),),
)
