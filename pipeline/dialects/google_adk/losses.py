"""What the wire `google-adk` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# What readers of the docs should know.
LOSSES: Final = {
    "how a run ended": "from the publisher's `end`; an error line of the server is an error whatever `end` says",
    "fragments without their whole event": "the run broke off, whatever `end` says: they are in `meta:partial`",
    "the user's message": "from the request body, where the run has it",
    "instructions, tools": "not there",
    "what the agent of an AgentTool said": "its return is all there is; `AdkPlugin` gives it a thread of its own",
    "partial results of tools": "not there",
    "fragments": "dropped when the whole event comes; pieces of arguments (`partialArgs`) are never a call",
    "text of runs without streaming, while they go on": "whole events repeat fragments: only these are shown",
    "tokens of a response that a code executor replaced": "its counts come on fragments only: not there",
    "tokens that a call's events repeat (progressive streaming off)": "counted once",
    "secrets of `requestedAuthConfigs`": "left out; an `adk_request_credential` call keeps its arguments: redact them",
    "times": "of receipt; the event's own are in `meta:adk`",
    "several invocations in one stream": "one turn; `meta:adk` has their ids",
}

GOOGLE_ADK: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name")),
    Loss("ids of texts and thoughts", "not there", drop.part_fields("text", "id")),
)

CARRIERS: Final = (Carrier("google-adk", GOOGLE_ADK),)
