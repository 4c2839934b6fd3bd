"""Histories of LangChain messages (a graph's `state["messages"]`), in any of their serialisations -> exchanges."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.format import Messages, Reader
from pipeline.dialects.langgraph.shapes import message_of
from pipeline.dialects.langgraph.stream import Entry, Stream
from pipeline.dialects.langgraph.turn import write
from threadmill.errors import InvalidRecord, Reason
from topics.json_text import Fields


def split(messages: Messages) -> list[Messages]:
    """The user's words behind an answer begin an exchange; system messages are no part of a thread."""
    exchanges: list[list[Fields]] = [[]]
    for raw in messages:
        message = message_of(raw)
        if message is None:
            raise InvalidRecord(Reason.INVALID_EVENT, f"no message of LangChain: {raw!r:.80}")
        if message["type"] not in ("human", "ai", "tool"):
            continue
        if message["type"] == "human" and exchanges[-1] and exchanges[-1][-1]["type"] != "human":
            exchanges.append([])
        exchanges[-1].append(message)
    return [exchange for exchange in exchanges if exchange]


def fill(builder: Builder, messages: Messages) -> str | None:
    """As the state of a run that is over."""
    stream = Stream(told=True, valued=True)
    stream.state = [Entry(message, builder.at, builder.at, whole=True) for message in messages]
    write(builder, stream, "complete")
    return "complete" if builder.messages else None


def time(messages: Messages) -> int | None:
    """The messages have none."""
    return None


READER: Final = Reader(split, fill, time)
