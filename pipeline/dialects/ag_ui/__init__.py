"""AG-UI, the protocol between agents and the interfaces of their users, and its messages."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.ag_ui import events, export, history, live, losses, request, side_events
from turnmill.wires import WIRES

DIALECT: Final = Dialect(
    name="ag-ui",
    wire=WIRES["ag-ui"],
    handlers=events.HANDLERS,
    unknown=side_events.unknown,
    begin=request.begin,
    history=request.repeated,
    finish=events.finish,
    stretches=events.STRETCHES,
    texts=events.TEXTS,
    conversation=live.conversation,
    shows=live.shows,
    ended=live.ended,
    carriers=losses.CARRIERS,
    formats=(Format("ag-ui", export.messages, history.READER),),
    resume=live.RESUME,
)
