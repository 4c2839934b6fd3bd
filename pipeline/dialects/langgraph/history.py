"""Histories of LangChain messages (a graph's `state["messages"]`), in any of their serialisations -> exchanges."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.format import Messages, Reader
from pipeline.dialects.history import MessagePlace, exchanges
from pipeline.dialects.langgraph.shapes import message_of
from pipeline.dialects.langgraph.stream import Entry, Stream
from pipeline.dialects.langgraph.turn import write
from topics.json_text import Fields
from turnmill.errors import InvalidRecord, Reason


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows an answer; system messages are not part of a thread."""
    read = [message for message in map(_read, messages) if message["type"] in ("human", "ai", "tool")]
    return exchanges(read, lambda message: MessagePlace.PROMPT if message["type"] == "human" else MessagePlace.ANSWER)


def _read(raw: Fields) -> Fields:
    message = message_of(raw)
    if message is None:
        raise InvalidRecord(Reason.INVALID_EVENT, f"no message of LangChain: {raw!r:.80}")
    return message


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the state of a finished run."""
    stream = Stream(updated=True, valued=True)
    stream.state = [Entry(message, builder.at, builder.at, whole=True) for message in messages]
    write(builder, stream, "complete")
    return "complete" if builder.messages else None


READER: Final = Reader(split, fill)
