"""What the wire `pi-agent` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# For readers of the docs: what is lost -> what Turnmill does instead.
LOSSES: Final = {
    "responses that failed or were aborted": "dropped, with their calls; tokens and cost stay in `total_usage`",
    "text of system prompts": "not stored; tools that it adds or removes are `tool.grant` and `tool.revoke`",
    "empty text and thinking without signature": "dropped",
    "partial results of tools": "for display only: the result counts",
    "a custom message before the user's": "kept, behind the user turn",
    "integers beyond 2^53": "as pi has written them, rounded; exports hold text for those beyond the largest double",
    "start and end of the run": "the wire has no time of them: times of receipt, or of the messages if the run is old",
}

PI_AGENT: Final = (
    Loss(
        "files of the model, the provider's own tools",
        "pi has no such content",
        drop.parts(lambda part: part["part_kind"] == "file" or part["part_kind"].startswith("builtin-")),
    ),
    Loss("sources", "pi has none", drop.events(lambda kind: kind.startswith("source."))),
)

CARRIERS: Final = (Carrier("pi-agent", PI_AGENT),)
