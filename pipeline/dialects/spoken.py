"""The order in which a thread's turns speak, for exports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from topics.json_text import Fields

Kind = Literal["asked", "answered"]


def spoken(turn: Fields) -> Iterator[tuple[Kind, Fields]]:
    """Who has the `parts` of a turn, in their order: a user turn or a request asks, a response answers. Other messages
    of the turn say nothing to a model.
    """
    if turn.get("turn_type") == "user":
        yield "asked", turn
        return
    for message in turn.get("messages", ()):
        if message.get("message_type") == "request":
            yield "asked", message
        elif message.get("message_type") == "response":
            yield "answered", message
