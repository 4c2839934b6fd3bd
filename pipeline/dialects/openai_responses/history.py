"""Histories of the Responses API (input items) -> exchanges."""

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.format import Messages, Reader
from pipeline.dialects import model_calls
from pipeline.dialects.history import MessagePlace, exchanges
from pipeline.dialects.openai_responses import request
from pipeline.dialects.openai_responses.output import Output
from topics.json_text import Fields

CALL: Final = "_call"


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows an answer without open calls."""
    return exchanges([item for item in messages if _speaker(item) not in ("system", "developer")], _place_in_exchange)


def _place_in_exchange(item: Fields) -> MessagePlace | None:
    speaker = _speaker(item)
    if speaker == "user":
        return MessagePlace.PROMPT
    if not request.is_own(item):
        return None
    return MessagePlace.MIDDLE if speaker is None else MessagePlace.ANSWER


def _speaker(item: Fields) -> Any:
    """Return the role of an item that is a message; None for any other."""
    kind = item.get("type") or ("message" if item["role"] else "")
    return item["role"] if kind == "message" else None


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the calls of a finished run: the model's items in a row are one response."""
    model_calls.begin(builder, request.READER)
    first = next((n for n, item in enumerate(messages) if request.is_own(item)), len(messages))
    model_calls.write(builder, [part for item in messages[:first] for part in request.parts(item)], opening=True)
    items: list[Fields] = []
    for item in messages[first:]:
        if request.is_own(item) or item.get("type") == "shell_call_output":
            items.append(item)
            continue
        _respond(builder, items)
        model_calls.write(builder, request.parts(item))
    _respond(builder, items)
    return "complete" if first < len(messages) else None


def _respond(builder: Builder, items: list[Fields]) -> None:
    if not items:
        return
    response = builder.open_response()
    output = Output(response, final=list(items))
    output.settle(whole=True)
    for call in output.calls():
        builder.calls[call.fields["tool_call_id"]] = (response, call)
    items.clear()


READER: Final = Reader(split, fill)
