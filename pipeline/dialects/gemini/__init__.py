"""Google's Gemini API (`generateContent`, `streamGenerateContent`), and its contents."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects import model_calls
from pipeline.dialects.gemini import events, export, live, losses, request
from pipeline.dialects.google_adk import history
from turnmill.wires import WIRES

DIALECT: Final = Dialect(
    name="gemini",
    wire=WIRES["gemini"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    stretches=events.STRETCHES,
    begin=events.begin,
    history=request.repeated,
    finish=model_calls.finish,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    carriers=losses.CARRIERS,
    formats=(Format("gemini", export.contents, history.READER),),
)
