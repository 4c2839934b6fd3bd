"""Histories of pi-agent-core (`agent.state.messages`) -> exchanges."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.format import Messages, Reader
from pipeline.dialects.history import MessagePlace, exchanges
from pipeline.dialects.pi_agent.messages import Received, span, time_of, write
from topics.json_text import Fields


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows a response without calls."""
    return exchanges(messages, _place_in_exchange)


def _place_in_exchange(message: Fields) -> MessagePlace | None:
    role = message["role"]
    if role == "user":
        return MessagePlace.PROMPT
    if role == "system":
        return None
    return (
        MessagePlace.ANSWER if role == "assistant" and message.get("stopReason") != "toolUse" else MessagePlace.MIDDLE
    )


def fill(builder: Builder, messages: Messages) -> str | None:
    """Read an exchange into the builder; return how it ended, None if it has no message of the agent."""
    builder.returns_by_call = False
    received = [Received(message) for message in messages]
    end = write(builder, received) or "complete"
    times = span(received)
    if times is not None:
        builder.last_at = max(times[1], *(message.at for message in builder.messages), builder.first_at)
    return end if builder.messages else None


READER: Final = Reader(split, fill, lambda messages: time_of(messages[0]))
