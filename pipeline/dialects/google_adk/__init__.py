"""Google ADK's Events: its streams, and the sessions that it keeps."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.google_adk import events, formats, live
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

GOOGLE_ADK: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name")),
    Loss("ids of texts and thoughts", "not there", drop.part_fields("text", "id")),
)

DIALECT: Final = Dialect(
    name="google-adk",
    wire=WIRES["google-adk"],
    handlers={},
    unknown=events.event,
    stretches=events.STRETCHES,
    begin=events.begin,
    finish=events.finish,
    recognises=live.recognises,
    shows=live.shows,
    carriers=(Carrier("google-adk", GOOGLE_ADK),),
    formats=(Format("google-adk", formats.events, formats.READER),),
)
