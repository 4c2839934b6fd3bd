"""Pydantic AI's event stream, and its messages."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.pydantic_ai import events, export, history, live, losses, prompt
from pipeline.dialects.pydantic_ai.export_versions import parse
from turnmill.wires import WIRES

DIALECT: Final = Dialect(
    name="pydantic-ai",
    wire=WIRES["pydantic-ai"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    stretches=events.STRETCHES,
    texts=events.TEXTS,
    begin=events.begin,
    history=prompt.repeated,
    finish=events.finish,
    shows=live.shows,
    ended=live.ended,
    carriers=losses.CARRIERS,
    formats=(
        Format("pydantic-ai", export.messages, history.READER, options={"for_version": parse, "viewing_agent": str}),
    ),
)
