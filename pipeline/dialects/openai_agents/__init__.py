"""The stream events of OpenAI's Agents SDK."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.dialects.openai_agents import events, live, losses, request
from turnmill.wires import WIRES

DIALECT: Final = Dialect(
    name="openai-agents",
    wire=WIRES["openai-agents"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    stretches=events.STRETCHES,
    begin=events.begin,
    history=request.repeated,
    finish=events.finish,
    shows=live.shows,
    carriers=losses.CARRIERS,
)
