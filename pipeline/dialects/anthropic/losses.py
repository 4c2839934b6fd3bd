"""What the wire `anthropic` can't carry, for the hash that it has in common with others."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

ANTHROPIC: Final = (
    Loss(
        "provider, response id",
        "provider from the publisher's `run`",
        drop.response_fields("provider_name", "provider_response_id"),
    ),
    Loss("id of a thought", "not there", drop.part_fields("thinking", "thinking_id")),
)

CARRIERS: Final = (Carrier("anthropic", ANTHROPIC),)
