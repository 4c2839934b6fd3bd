"""Histories of Chat Completions (`messages`) -> exchanges."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.format import Messages, Reader
from pipeline.dialects.history import MessagePlace, exchanges, fill_calls
from pipeline.dialects.openai_chat import request
from pipeline.dialects.openai_chat.answer import ChoiceAnswer
from pipeline.dialects.openai_chat.keys import note
from topics.json_text import Fields

CALLS: Final = ("tool_calls", "function_call")


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows an answer without calls; system messages are not part of a thread."""
    return exchanges(
        [message for message in messages if message["role"] not in ("system", "developer")], _place_in_exchange
    )


def _place_in_exchange(message: Fields) -> MessagePlace:
    if message["role"] == "user":
        return MessagePlace.PROMPT
    calls = any(message.get(key) for key in CALLS)
    return MessagePlace.ANSWER if message["role"] == "assistant" and not calls else MessagePlace.MIDDLE


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the calls of a finished run."""
    return fill_calls(builder, messages, request.READER, _respond)


def _respond(builder: Builder, message: Fields) -> None:
    response = builder.open_response()
    response.keep_empty = True
    answer = ChoiceAnswer(response)
    answer.add(message, builder.at, whole=True)
    answer.settle(whole=True)
    audio = message.get("audio")
    if isinstance(audio, dict):
        note(response.fields, {"audio": audio})
    for call in answer.tool_calls.calls:
        builder.calls[call.fields["tool_call_id"]] = (response, call)


READER: Final = Reader(split, fill)
