"""The Agents SDK streaming contract."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.dialects.agents_sdk import events, live
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

AGENTS_SDK: Final = (
    Loss(
        "provider, response id",
        "not there, unless the publisher knows the provider",
        drop.response_fields("provider_name", "provider_response_id"),
    ),
    Loss(
        "why a response ended, but the last one",
        "`tool_call` where it has calls, else `stop`",
        drop.finish_reasons(but_the_last=True),
    ),
    Loss(
        "thinking, files, the provider's own tools",
        "not there; an event of an unknown name is kept as a system message",
        drop.parts(lambda part: part["part_kind"] in ("thinking", "file") or part["part_kind"].startswith("builtin-")),
    ),
    Loss(
        "ids of texts",
        "not there; messageId serves only to tell messages apart",
        drop.part_fields("text", "id", "provider_name", "provider_details"),
    ),
)

DIALECT: Final = Dialect(
    name="agents-sdk",
    wire=WIRES["agents-sdk"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    begin=events.begin,
    history=events.repeated,
    finish=events.finish,
    conversation=live.conversation,
    recognises=live.recognises,
    shows=live.shows,
    ended=live.ended,
    carriers=(Carrier("agents-sdk", AGENTS_SDK),),
)
