"""OpenAI's Responses API, and its items."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects import model_calls
from pipeline.dialects.openai_responses import events, formats, live, request
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

OPENAI_RESPONSES: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name", "provider_response_id")),
)

DIALECT: Final = Dialect(
    name="openai-responses",
    wire=WIRES["openai-responses"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    stretches=events.STRETCHES,
    begin=events.begin,
    history=request.READER.history,
    finish=model_calls.finish,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    carriers=(Carrier("openai-responses", OPENAI_RESPONSES),),
    formats=(Format("openai-responses", formats.messages, formats.READER),),
    resume=live.RESUME,
)
