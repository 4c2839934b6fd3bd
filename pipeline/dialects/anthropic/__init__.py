"""Anthropic's Messages API, and its messages."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects import model_calls
from pipeline.dialects.anthropic import events, formats, live, request
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

ANTHROPIC: Final = (
    Loss(
        "provider, response id",
        "provider from the publisher's `run`",
        drop.response_fields("provider_name", "provider_response_id"),
    ),
    Loss("id of a thought", "not there", drop.part_fields("thinking", "thinking_id")),
)

DIALECT: Final = Dialect(
    name="anthropic",
    wire=WIRES["anthropic"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    stretches=events.STRETCHES,
    deltas=events.DELTAS,
    begin=events.begin,
    history=request.READER.history,
    finish=model_calls.finish,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    carriers=(Carrier("anthropic", ANTHROPIC),),
    formats=(Format("anthropic", formats.messages, formats.READER),),
)
