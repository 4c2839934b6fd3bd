"""What the wire `agents-sdk` can't carry, for the hash that it has in common with others."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

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

CARRIERS: Final = (Carrier("agents-sdk", AGENTS_SDK),)
