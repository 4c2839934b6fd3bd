"""OpenAI's Chat Completions, and its messages."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects import model_calls
from pipeline.dialects.openai_chat import events, formats, live, request
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

OF_THOUGHT: Final = ("signature", "thinking_id", "provider_name", "provider_details")

OPENAI_CHAT: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name", "provider_response_id")),
    Loss("the provider's own tools", "not there", drop.parts(lambda part: part["part_kind"].startswith("builtin-"))),
    Loss("signature, id and provider of a thought", "not there", drop.part_fields("thinking", *OF_THOUGHT)),
)

DIALECT: Final = Dialect(
    name="openai-chat",
    wire=WIRES["openai-chat"],
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
    carriers=(Carrier("openai-chat", OPENAI_CHAT),),
    formats=(Format("openai-chat", formats.messages, formats.READER),),
)
