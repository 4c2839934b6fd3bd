"""ThreadProtocol itself, as a wire and as the format of whole threads."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.thread_protocol import events, export
from turnmill.wire.registry import WIRES

DIALECT: Final = Dialect(
    name="thread-protocol",
    wire=WIRES["thread-protocol"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    begin=events.begin,
    finish=events.finish,
    ended=lambda event, before: "complete",  # each event is whole, so a stream may stop after any
    formats=(Format("thread", export.document, options={"repeat_user_prompt": bool}, is_document=True),),
)
