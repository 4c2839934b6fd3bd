"""LangGraph's streams, and the messages of LangChain."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.langgraph import events, export, history, live, losses, request
from turnmill.wires import WIRES

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
    carriers=losses.CARRIERS,
    formats=(Format("langchain", export.messages, history.READER),),
)
