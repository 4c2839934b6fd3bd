"""What the wire `langgraph` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# What readers of the docs should know.
LOSSES: Final = {
    "how a run ended": "tuples and today's platform say nothing: `end` of the publisher; `error` is on the wire",
    "the root's start without its end (`astream_events`, v3)": "the run broke off, whatever the publisher's `end` says",
    "chunks of messages that never get into the state": "dropped; of a run that broke off in `meta:partial`",
    "messages alone (no updates, no values)": "chunks and whole messages of the root are all there is",
    "messages that a node takes back (RemoveMessage)": "not in the turn",
    "an earlier message that a resumed run writes again": "in the turn, without its tokens: they were counted before",
    "agents inside of tools": "SystemMessage custom:langgraph.subagent with their whole messages; their tokens there",
    "the order of tasks side by side": "from the metadata of chunks; without chunks, as they were done",
    "arguments that are no JSON": "as the SDK repaired them, where it did; else {INVALID_JSON: text}",
    "system prompts, tools, requests of each call": "not there",
    "times": "of receipt",
    "live text of messages/partial": "not shown while it comes: each event repeats all before it",
    "partial results of tools, tasks, checkpoints, debug": "dropped, but for ids of checkpoints",
}

LANGGRAPH: Final = (
    Loss("response id", "not there, but for some providers", drop.response_fields("provider_response_id")),
    Loss("provider of texts and thoughts", "the response's", drop.part_fields("thinking", "provider_name")),
    Loss("why a call failed", "error", drop.answers(drop.failure)),
    Loss("ids of texts", "not there", drop.part_fields("text", "id", "provider_name", "provider_details")),
)

CARRIERS: Final = (Carrier("langgraph", LANGGRAPH),)
