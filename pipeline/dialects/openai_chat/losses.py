"""What the wire `openai-chat` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# What readers of the docs should know.
LOSSES: Final = {
    "order of texts and calls, several texts": "one thought, one text, then the calls",
    "system prompts, definitions of tools": "configuration of the request: not stored",
    "user prompts, tool results": "from the requests (`turnmill.request`, or `run.request`)",
    "whether a tool failed": "`success`: the wire has no mark of errors",
    "tools that the server ran": "SystemMessage `custom:executed_tools`, where it tells of them",
    "other choices than the first": "SystemMessage `custom:choice`: alternatives are not in the conversation",
    "a call that broke off and was tried again with the same messages": "dropped, with its tokens",
    "an answer without `finish_reason`, but with `[DONE]`": "complete",
    "`<think>` in texts": "stays text, as the SDK has it",
    "usage, where the server tells none": "unknown, not 0",
    "half of a surrogate pair": "U+FFFD, as everywhere in a turn",
    "times": "of receipt",
}

OF_THOUGHT: Final = ("signature", "thinking_id", "provider_name", "provider_details")

OPENAI_CHAT: Final = (
    Loss(
        "provider",
        "from the publisher's `run`",
        drop.response_fields("provider_name", "provider_response_id"),
    ),
    Loss(
        "the provider's own tools",
        "not there",
        drop.parts(lambda part: part["part_kind"].startswith("builtin-")),
    ),
    Loss(
        "signature, id and provider of a thought",
        "not there",
        drop.part_fields("thinking", *OF_THOUGHT),
    ),
)

CARRIERS: Final = (Carrier("openai-chat", OPENAI_CHAT),)
