"""What the wire `gemini` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# What readers of the docs should know.
LOSSES: Final = {
    "the model's name where the server tells no `modelVersion`": "from the publisher's `run`: it is in the address",
    "system instructions, definitions of tools": "configuration of the request: not stored",
    "user prompts, results of functions": "from the requests (`turnmill.request`, or `run.request`)",
    "ids of calls, where the server gives none": "`call:N`, their number in the conversation; results by their names",
    "other candidates than the first": "SystemMessage `custom:choice`: alternatives are not in the conversation",
    "a call that broke off and was tried again with the same contents": "dropped, with its tokens",
    "an older model's stream that stops between two pieces": "complete: each of them has a `finishReason`",
    "the server's own tools (`toolCall`, `toolResponse`)": "`custom:google-adk`, as they came",
    "where a text was cut into pieces": "not there; a signature stays with the text that it ends",
    "half of a surrogate pair": "U+FFFD, as everywhere in a turn",
    "times": "of receipt",
}

GEMINI: Final = (
    Loss(
        "provider, response id",
        "provider from the publisher's `run`",
        drop.response_fields("provider_name", "provider_response_id"),
    ),
    Loss("ids of texts and thoughts", "not there", drop.part_fields("text", "id")),
)

CARRIERS: Final = (Carrier("gemini", GEMINI),)
