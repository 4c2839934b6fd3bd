"""Sessions of ADK: their events, or bare Contents -> exchanges."""

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.format import Messages, Reader
from pipeline.dialects.google_adk.event import USER, Memory, read
from pipeline.dialects.google_adk.events import apply
from pipeline.dialects.google_adk.parts import spelled
from pipeline.dialects.history import MessagePlace, exchanges
from topics.json_text import Fields

MAX_SECONDS: Final = 100_000_000_000  # ADK in Python and Go writes seconds, in JavaScript and Java milliseconds


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows an agent's event; a result of the user begins no exchange."""
    return exchanges(messages, _place_in_exchange)


def _place_in_exchange(message: Fields) -> MessagePlace | None:
    event = read(_event(message))
    if event.author != USER:
        return MessagePlace.ANSWER if event.parts else None
    return MessagePlace.PROMPT if any("functionResponse" not in part for part in event.parts.values()) else None


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the whole events of a finished run."""
    builder.returns_by_call = False
    builder.scratch = Memory()
    for message in messages:
        event = read(_event(message))
        builder.at = max(builder.at, _at(event.fields) or 0)
        if not event.is_fragment:
            apply(builder, event)
    builder.last_at = max(builder.last_at, builder.at)
    return "complete" if builder.messages else None


def time(messages: Messages) -> int | None:
    """Return the first event's time."""
    return _at(spelled(messages[0]))


def _event(message: Fields) -> Fields:
    """Return the Event for a Content: its role `user` is the author, except for results of tools."""
    if "parts" not in message or "content" in message:
        return message
    parts = [spelled(part) for part in message["parts"] or ()]
    is_answer = bool(parts) and all("functionResponse" in part for part in parts)
    return {"author": USER if message.get("role") == USER and not is_answer else "", "content": message}


def _at(fields: Fields) -> int | None:
    stamp: Any = fields.get("timestamp")
    if not isinstance(stamp, int | float) or isinstance(stamp, bool) or not 0 < stamp < MAX_SECONDS * 1000:
        return None
    return int(stamp * 1000 if stamp < MAX_SECONDS else stamp)


READER: Final = Reader(split, fill, time)
