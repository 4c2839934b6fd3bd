"""A history -> its exchanges: the messages that each run of the agent would have had."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto

from pipeline.assembly.format import Messages
from topics.json_text import Fields


class Place(Enum):
    """Where a message may stand in its exchange."""

    PROMPT = auto()  # at the beginning: behind an answer it begins the next exchange
    MIDDLE = auto()  # the exchange goes on behind it, as behind a call of a tool
    ANSWER = auto()  # at the end: the next prompt begins another exchange


def exchanges(messages: Iterable[Fields], place_of: Callable[[Fields], Place | None]) -> list[Messages]:
    """Cut a history before each prompt that follows an answer. `place_of` None: the message stands anywhere, and what
    stood before it decides.
    """
    found: list[list[Fields]] = [[]]
    answered = False
    for message in messages:
        place = place_of(message)
        if place is Place.PROMPT and answered:
            found.append([])
        if place is not None:
            answered = place is Place.ANSWER
        found[-1].append(message)
    return [exchange for exchange in found if exchange]
