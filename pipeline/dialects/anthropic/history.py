"""Histories of the Messages API (`messages`) -> exchanges."""

from __future__ import annotations

from functools import partial
from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.format import Messages, Reader
from pipeline.dialects.anthropic import request
from pipeline.dialects.anthropic.message import MessageAnswer
from pipeline.dialects.history import MessagePlace, exchanges, fill_calls
from topics.json_text import Fields


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows an answer without calls."""
    return exchanges(messages, _place_in_exchange)


def _place_in_exchange(message: Fields) -> MessagePlace:
    if message["role"] == "user":
        return MessagePlace.PROMPT
    calls = any(block.get("type") == "tool_use" for block in request.blocks(message))
    return MessagePlace.ANSWER if message["role"] == "assistant" and not calls else MessagePlace.MIDDLE


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the calls of a finished run."""
    names: Fields = {}
    return fill_calls(builder, messages, request.READER, partial(_respond, names))


def _respond(names: Fields, builder: Builder, message: Fields) -> None:
    response = builder.open_response()
    response.keep_empty = True
    answer = MessageAnswer(response, "anthropic")
    answer.start({"content": request.blocks(message)}, builder.at)
    answer.settle(names, whole=True)
    for call in answer.calls():
        builder.calls[call.fields["tool_call_id"]] = (response, call)


READER: Final = Reader(split, fill)
