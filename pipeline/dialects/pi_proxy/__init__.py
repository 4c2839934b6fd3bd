"""pi-agent-core's proxy stream."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.dialects.pi_agent.live import shows_of_message
from pipeline.dialects.pi_proxy import body, events, live, losses
from turnmill.wires import WIRES

DIALECT: Final = Dialect(
    name="pi-proxy",
    wire=WIRES["pi-proxy"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    begin=events.begin,
    history=body.repeated,
    finish=events.finish,
    recognises=live.recognises,
    shows=shows_of_message,
    ended=live.ended,
    carriers=losses.CARRIERS,
)
