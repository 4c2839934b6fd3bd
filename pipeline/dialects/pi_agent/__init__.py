"""pi-agent-core's AgentEvents, and the messages that pi keeps."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.pi_agent import events, export, history, live, losses
from turnmill.wires import WIRES

DIALECT: Final = Dialect(
    name="pi-agent",
    wire=WIRES["pi-agent"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    begin=events.begin,
    finish=events.finish,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    carriers=losses.CARRIERS,
    formats=(Format("pi-agent", export.messages, history.READER),),
)
