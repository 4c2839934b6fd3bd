"""What the wire `pydantic-ai` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# For readers of the docs: what is lost -> what Turnmill does instead.
LOSSES: Final = {
    "system prompts": "not stored, as ThreadProtocol asks; instructions are kept beside their request",
    "a prompt before `new_message_index` (UI adapters)": "from the request body, where the run has it",
    "how a run failed": "from the publisher's `end`",
    "sub-agents": "runs of their own: `parent_run_id` joins them",
    "null and default fields": "left out; the export's reader has the same defaults",
    "events alone: first request, tokens, models, finish reasons, ids of runs": "not there; times are of receipt",
    "events alone: a retry that answers no tool (native output, text that was refused)": (
        "not there: two responses follow each other; the export of 1.x lacks a retry prompt"
    ),
    "events alone, 1.x: results of output tools, and of functions not run because of them": (
        "of a complete run the SDK's own words are added, marked `meta:implied`"
    ),
    "events alone: an output that was taken back because another tool asked for a retry": "shown as processed",
    "events alone: which of several calls a steering message belongs to": "it stands behind all their results",
}

PYDANTIC_AI: Final = (
    Loss(
        "how a run without result ended",
        "the publisher says it (`end`); the error's text stays with the application",
        lambda turn: drop.events(lambda kind: kind == "error")(drop.turn_fields("interruption")(turn)),
    ),
    Loss(
        "sources",
        "citations of a text stay in the text part; what a tool puts into its result's metadata stays there",
        drop.events(lambda kind: kind.startswith("source.")),
    ),
)

EVENTS_ALONE: Final = (
    Loss(
        "model, provider, response id",
        "model and provider from the publisher's `run`, where it knows them",
        drop.response_fields("model_name", "provider_name", "provider_response_id"),
    ),
    Loss(
        "why a response ended",
        "`tool_call` where it has calls, else `stop`",
        drop.finish_reasons(but_the_last=False),
    ),
    Loss(
        "that the answer was refused and the model asked again, where no tool is involved",
        "the second response follows on the first",
        drop.parts(drop.is_retry_without_tool),
    ),
)

CARRIERS: Final = (
    Carrier("pydantic-ai", PYDANTIC_AI),
    Carrier("pydantic-ai (events alone)", EVENTS_ALONE, over="pydantic-ai"),
)
