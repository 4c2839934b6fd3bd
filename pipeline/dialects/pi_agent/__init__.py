"""pi-agent-core's AgentEvents, and the messages that pi keeps."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.pi_agent import events, export, history, live
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

PI_AGENT: Final = (
    Loss(
        "files of the model, the provider's own tools",
        "pi has no such content",
        drop.parts(lambda part: part["part_kind"] == "file" or part["part_kind"].startswith("builtin-")),
    ),
    Loss("sources", "pi has none", drop.events(lambda kind: kind.startswith("source."))),
)

DIALECT: Final = Dialect(
    name="pi-agent",
    wire=WIRES["pi-agent"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    begin=events.begin,
    finish=events.finish,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    carriers=(Carrier("pi-agent", PI_AGENT),),
    formats=(Format("pi-agent", export.messages, history.READER),),
)
