"""What the wire `pi-agent` can't carry, for the hash that it has in common with others."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

PI_AGENT: Final = (
    Loss(
        "files of the model, the provider's own tools",
        "pi has no such content",
        drop.parts(lambda part: part["part_kind"] == "file" or part["part_kind"].startswith("builtin-")),
    ),
    Loss("sources", "pi has none", drop.events(lambda kind: kind.startswith("source."))),
)

CARRIERS: Final = (Carrier("pi-agent", PI_AGENT),)
