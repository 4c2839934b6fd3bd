"""What the wire `openai-chat` can't carry, for the hash that it has in common with others."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

OF_THOUGHT: Final = ("signature", "thinking_id", "provider_name", "provider_details")

OPENAI_CHAT: Final = (
    Loss(
        "provider",
        "from the publisher's `run`",
        drop.response_fields("provider_name", "provider_response_id"),
    ),
    Loss(
        "the provider's own tools",
        "not there",
        drop.parts(lambda part: part["part_kind"].startswith("builtin-")),
    ),
    Loss(
        "signature, id and provider of a thought",
        "not there",
        drop.part_fields("thinking", *OF_THOUGHT),
    ),
)

CARRIERS: Final = (Carrier("openai-chat", OPENAI_CHAT),)
