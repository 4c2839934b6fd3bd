"""Google ADK's Events: its streams, and the sessions that it keeps."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.google_adk import events, export, history, live, losses
from turnmill.wires import WIRES

DIALECT: Final = Dialect(
    name="google-adk",
    wire=WIRES["google-adk"],
    handlers={},
    unknown=events.event,
    stretches=events.STRETCHES,
    begin=events.begin,
    finish=events.finish,
    recognises=live.recognises,
    shows=live.shows,
    carriers=losses.CARRIERS,
    formats=(Format("google-adk", export.events, history.READER),),
)
