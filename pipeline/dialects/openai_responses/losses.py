"""What the wire `openai-responses` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# What readers of the docs should know.
LOSSES: Final = {
    "instructions, system messages, definitions of tools": "configuration of the request: not stored",
    "user prompts, tool results": "from the requests (`turnmill.request`, or `run.request`)",
    "whether a tool failed": "`success`, unless its output says `failed`",
    "a call that broke off and was tried again with the same input": "dropped, with its tokens",
    "a call whose arguments were cut short (status incomplete)": "`custom:TYPE`, the item as it came",
    "raw thoughts beside a summary": "in `meta:openai_responses`: the summary is the part",
    "lists of tools, approvals, programs, compaction, unknown items": "`custom:TYPE`, as they came",
    "progress of the server's tools, partial images": "for display only: the item counts",
    "half of a surrogate pair": "U+FFFD, as everywhere in a turn",
    "times": "of receipt",
}

OPENAI_RESPONSES: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name", "provider_response_id")),
)

CARRIERS: Final = (Carrier("openai-responses", OPENAI_RESPONSES),)
