"""OpenAI's Chat Completions, and its messages."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.openai_chat import events, export, history, live, losses
from threadmill.wires import WIRES

DIALECT: Final = Dialect(
    name="openai-chat",
    wire=WIRES["openai-chat"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    begin=events.begin,
    finish=events.finish,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    losses=losses.LOSSES,
    carriers=losses.CARRIERS,
    formats=(Format("openai-chat", export.messages, history.READER),),
)
