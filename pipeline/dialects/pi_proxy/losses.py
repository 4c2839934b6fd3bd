"""What the wire `pi-proxy` can't carry, for the hash that it has in common with others."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

PI_PROXY: Final = (
    Loss(
        "model, provider, response id",
        "model and provider from the request body, where the run has it",
        drop.response_fields("model_name", "provider_name", "provider_response_id"),
    ),
    Loss("provider of a thought", "the request body's", drop.part_fields("thinking", "provider_name")),
    Loss(
        "redacted thinking (before 1.5)",
        "not there",
        drop.parts(lambda part: part["part_kind"] == "thinking" and part.get("thinking_id") == "redacted_thinking"),
    ),
)

CARRIERS: Final = (Carrier("pi-proxy", PI_PROXY, over="pi-agent"),)
