"""Histories of AG-UI messages (`agent.messages`, or `messages` of a RunAgentInput) -> exchanges."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.format import Messages, Reader
from pipeline.dialects.ag_ui.messages import add_user_turn, begin, item_of, write_items
from pipeline.dialects.ag_ui.stream import Stream
from pipeline.dialects.ag_ui.turn import write
from pipeline.dialects.history import MessagePlace, exchanges


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows an answer; system messages are not part of a thread."""
    told = [message for message in messages if message["role"] not in ("system", "developer")]
    return exchanges(told, lambda message: MessagePlace.PROMPT if message["role"] == "user" else MessagePlace.ANSWER)


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the messages of a finished run."""
    begin(builder)
    stream: Stream = builder.scratch["stream"]
    items = [item for item in (item_of(message, builder.at) for message in messages) if item is not None]
    add_user_turn(builder, [item for item in items if item.role == "user"])
    write_items(stream, [item for item in items if item.role != "user"])
    write(builder, stream, "complete")
    return "complete" if builder.messages else None


READER: Final = Reader(split, fill)
