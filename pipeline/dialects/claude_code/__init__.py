"""Claude Code's stream-json, which is what its Agent SDK reads, too."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.dialects.claude_code import events, live, losses
from turnmill.wires import WIRES

DIALECT: Final = Dialect(
    name="claude-code",
    wire=WIRES["claude-code"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    stretches=events.STRETCHES,
    begin=events.begin,
    finish=events.finish,
    conversation=live.conversation,
    shows=live.shows,
    ended=live.ended,
    carriers=losses.CARRIERS,
)
