"""What the wire `anthropic` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# What readers of the docs should know.
LOSSES: Final = {
    "system prompts, definitions of tools": "configuration of the request: not stored",
    "user prompts, tool results": "from the requests (`turnmill.request`, or `run.request`)",
    "a call that broke off and was tried again with the same messages": "dropped, with its tokens",
    "a message without `message_stop`": "broke off, even where it has a `stop_reason`",
    "a message that another one cuts off": "dropped, but for its tokens",
    "thinking whose text is withheld": "a thought without text, with its signature",
    "files that the model made": "their ids alone",
    "compaction, fallback, listings of tools, blocks that nobody knows": "`custom:TYPE`, as they came",
    "`event:` lines": "ignored: the payload's own type counts",
    "half of a surrogate pair": "U+FFFD, as everywhere in a turn",
    "times": "of receipt",
}

ANTHROPIC: Final = (
    Loss(
        "provider, response id",
        "provider from the publisher's `run`",
        drop.response_fields("provider_name", "provider_response_id"),
    ),
    Loss("id of a thought", "not there", drop.part_fields("thinking", "thinking_id")),
)

CARRIERS: Final = (Carrier("anthropic", ANTHROPIC),)
