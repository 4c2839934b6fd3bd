"""Claude Code's stream-json, which is what its Agent SDK reads, too."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.dialects.claude_code import events, live
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

CLAUDE_CODE: Final = (
    Loss("provider", "`anthropic`, or from the publisher's `run`", drop.response_fields("provider_name")),
    Loss("ids of texts and thoughts", "not there", drop.part_fields("text", "id")),
)

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
    carriers=(Carrier("claude-code", CLAUDE_CODE),),
)
