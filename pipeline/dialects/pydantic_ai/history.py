"""Pydantic AI's histories (ModelMessagesTypeAdapter, `result.all_messages()` of 1.20 to 2.68) -> exchanges."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.format import Messages, Reader
from pipeline.dialects.pydantic_ai.messages import message
from pipeline.dialects.pydantic_ai.result import replace
from topics.json_text import Fields

ANSWERS: Final = frozenset({"tool-return", "retry-prompt", "retry-feedback"})
CUT_OFF: Final = frozenset({"incomplete", "interrupted"})


def split(messages: Messages) -> list[Messages]:
    """Cut before each request with another run id; without run ids, before a prompt that answers no tool."""
    exchanges: list[list[Fields]] = []
    for number, raw in enumerate(messages):
        before = messages[number - 1] if number else None
        if before is None or (raw["kind"] == "request" and _begins(raw, before)):
            exchanges.append([])
        exchanges[-1].append(raw)
    return list(exchanges)


def _begins(request: Fields, before: Fields) -> bool:
    if before["kind"] != "response":
        return False
    run_id, last = request.get("run_id"), before.get("run_id")
    if run_id is not None and last is not None:
        return bool(run_id != last)
    kinds = {part["part_kind"] for part in request["parts"]}
    return "user-prompt" in kinds and not kinds & ANSWERS


def fill(builder: Builder, messages: Messages) -> str | None:
    """Read an exchange like a run's result; return its end: `aborted` if its last response is unfinished."""
    builder.returns_by_call = False  # results keep the SDK's order
    replace(builder, [message(raw) for raw in messages])
    last = messages[-1]
    if last["kind"] == "response" and last.get("state") in CUT_OFF:
        builder.messages[-1].closed = False
        return "aborted"
    return "complete" if builder.messages else None


READER: Final = Reader(split, fill, lambda messages: message(messages[0]).at)
