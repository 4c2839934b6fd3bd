"""What the wire `openai-responses` can't carry, for the hash that it has in common with others."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

OPENAI_RESPONSES: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name", "provider_response_id")),
)

CARRIERS: Final = (Carrier("openai-responses", OPENAI_RESPONSES),)
