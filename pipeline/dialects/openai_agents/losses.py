"""What the wire `openai-agents` can't carry, for the hash that it has in common with others."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

OPENAI_AGENTS: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name")),
    Loss(
        "whether a call failed",
        "`success`",
        drop.answers(lambda part: {key: value for key, value in part.items() if key != "status"}),
    ),
)

CARRIERS: Final = (Carrier("openai-agents", OPENAI_AGENTS),)
