"""What the wire `gemini` can't carry, for the hash that it has in common with others."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

GEMINI: Final = (
    Loss(
        "provider, response id",
        "provider from the publisher's `run`",
        drop.response_fields("provider_name", "provider_response_id"),
    ),
    Loss("ids of texts and thoughts", "not there", drop.part_fields("text", "id")),
)

CARRIERS: Final = (Carrier("gemini", GEMINI),)
