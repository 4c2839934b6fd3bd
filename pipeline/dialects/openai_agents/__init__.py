"""The stream events of OpenAI's Agents SDK."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.dialects.openai_agents import events, live
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

OPENAI_AGENTS: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name")),
    Loss(
        "whether a call failed",
        "`success`",
        drop.answers(lambda part: {key: value for key, value in part.items() if key != "status"}),
    ),
)

DIALECT: Final = Dialect(
    name="openai-agents",
    wire=WIRES["openai-agents"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    stretches=events.STRETCHES,
    begin=events.begin,
    history=events.repeated,
    finish=events.finish,
    shows=live.shows,
    carriers=(Carrier("openai-agents", OPENAI_AGENTS),),
)
