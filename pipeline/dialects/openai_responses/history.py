"""Histories of the Responses API (input items) -> exchanges."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.format import Messages, Reader
from pipeline.dialects import model_calls
from pipeline.dialects.openai_responses import request
from pipeline.dialects.openai_responses.output import Output
from topics.json_text import Fields

CALL: Final = "_call"


def split(messages: Messages) -> list[Messages]:
    """A user's message behind an answer without open calls begins an exchange."""
    exchanges: list[list[Fields]] = [[]]
    settled = False
    for item in messages:
        kind = item.get("type") or ("message" if item["role"] else "")
        if kind == "message" and item["role"] in ("system", "developer"):
            continue
        if kind == "message" and item["role"] == "user":
            if settled:
                exchanges.append([])
            settled = False
        elif request.is_own(item):
            settled = kind == "message"
        exchanges[-1].append(item)
    return [exchange for exchange in exchanges if exchange]


def fill(builder: Builder, messages: Messages) -> str | None:
    """As the calls of a run that is over: what the model said in a row is one response."""
    model_calls.begin(builder, request.READER)
    first = next((n for n, item in enumerate(messages) if request.is_own(item)), len(messages))
    model_calls.write(builder, [part for item in messages[:first] for part in request.parts(item)], opening=True)
    said: list[Fields] = []
    for item in messages[first:]:
        if request.is_own(item) or item.get("type") == "shell_call_output":
            said.append(item)
            continue
        _respond(builder, said)
        model_calls.write(builder, request.parts(item))
    _respond(builder, said)
    return "complete" if first < len(messages) else None


def time(messages: Messages) -> int | None:
    """The items tell no time."""
    return None


def _respond(builder: Builder, said: list[Fields]) -> None:
    if not said:
        return
    response = builder.open_response()
    output = Output(response, final=list(said))
    output.settle(whole=True)
    for call in output.calls():
        builder.calls[call.fields["tool_call_id"]] = (response, call)
    said.clear()


READER: Final = Reader(split, fill, time)
