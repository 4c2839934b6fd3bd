"""Google's Gemini API (`generateContent`, `streamGenerateContent`), and its contents."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects import model_calls
from pipeline.dialects.gemini import events, live, request
from pipeline.dialects.google_adk import formats
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

GEMINI: Final = (
    Loss(
        "provider, response id",
        "provider from the publisher's `run`",
        drop.response_fields("provider_name", "provider_response_id"),
    ),
    Loss("ids of texts and thoughts", "not there", drop.part_fields("text", "id")),
)

DIALECT: Final = Dialect(
    name="gemini",
    wire=WIRES["gemini"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    stretches=events.STRETCHES,
    begin=events.begin,
    history=request.READER.history,
    finish=model_calls.finish,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    carriers=(Carrier("gemini", GEMINI),),
    formats=(Format("gemini", formats.contents, formats.READER),),
)
