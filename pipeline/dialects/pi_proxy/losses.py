"""What the wire `pi-proxy` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# For readers of the docs: what is lost -> what Turnmill does instead.
LOSSES: Final = {
    "model, provider, API, user prompts, tool results": "from the request body, where the run has it",
    "response id, start of the request": "not there; the time of receipt",
    "redacted thinking, thought signatures (before 1.5)": "not there",
    "a response without `done`, or that the client gave up": "in `meta:partial` only; tokens stay in `total_usage`",
    "a block without its end": "dropped, as ThreadProtocol asks; pi's client keeps it",
    "events behind the terminal one": "ignored; pi's client goes on to change a message that it may have given out",
}

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
