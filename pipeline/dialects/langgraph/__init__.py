"""LangGraph's streams, and the messages of LangChain."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.langgraph import events, formats, live, request
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

LANGGRAPH: Final = (
    Loss("response id", "not there, but for some providers", drop.response_fields("provider_response_id")),
    Loss("provider of texts and thoughts", "the response's", drop.part_fields("thinking", "provider_name")),
    Loss("why a call failed", "error", drop.answers(drop.failure)),
    Loss("ids of texts", "not there", drop.part_fields("text", "id", "provider_name", "provider_details")),
)

DIALECT: Final = Dialect(
    name="langgraph",
    wire=WIRES["langgraph"],
    handlers=events.HANDLERS,
    unknown=events.read,
    stretches=events.STRETCHES,
    begin=request.begin,
    history=request.repeated,
    finish=events.finish,
    conversation=live.conversation,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    carriers=(Carrier("langgraph", LANGGRAPH),),
    formats=(Format("langchain", formats.messages, formats.READER),),
)
