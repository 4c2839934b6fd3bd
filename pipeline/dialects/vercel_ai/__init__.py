"""The AI SDK's UI message stream, and its UI messages."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.deltas import stretches
from pipeline.dialects.vercel_ai import events, export, history, live, losses, request
from pipeline.dialects.vercel_ai.side_events import unknown
from turnmill.wire.registry import WIRES

DIALECT: Final = Dialect(
    name="vercel-ai",
    wire=WIRES["vercel-ai"],
    handlers=events.HANDLERS,
    unknown=unknown,
    begin=request.begin,
    history=request.repeated,
    finish=events.close,
    stretches=stretches(events.DELTAS, "type"),
    deltas=events.DELTAS,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    carriers=losses.CARRIERS,
    formats=(Format("vercel-ai", export.messages, history.READER),),
    resume=live.RESUME,
)
