"""The Agents SDK streaming contract."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.dialects.agents_sdk import events, live, losses, request
from turnmill.wires import WIRES

DIALECT: Final = Dialect(
    name="agents-sdk",
    wire=WIRES["agents-sdk"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    begin=events.begin,
    history=request.repeated,
    finish=events.finish,
    conversation=live.conversation,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    carriers=losses.CARRIERS,
)
