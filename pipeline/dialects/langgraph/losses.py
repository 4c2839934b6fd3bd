"""What the wire `langgraph` can't carry, for the hash that it has in common with others."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

LANGGRAPH: Final = (
    Loss("response id", "not there, but for some providers", drop.response_fields("provider_response_id")),
    Loss("provider of texts and thoughts", "the response's", drop.part_fields("thinking", "provider_name")),
    Loss("why a call failed", "error", drop.answers(drop.failure)),
    Loss("ids of texts", "not there", drop.part_fields("text", "id", "provider_name", "provider_details")),
)

CARRIERS: Final = (Carrier("langgraph", LANGGRAPH),)
