"""The body of a run (`run.request`), as LangGraph's platform takes it: {"input": {"messages": [...]}, "command": …}."""

from __future__ import annotations

from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.dialects.langgraph.shapes import message_of
from pipeline.dialects.langgraph.stream import Stream
from pipeline.dialects.langgraph.turn import prompt_part
from pipeline.turns.lineage import History
from topics.json_text import Fields


def begin(builder: Builder) -> None:
    """The user's words are the last of the input; a body of another shape says nothing."""
    builder.scratch["stream"] = Stream()
    messages = _messages(builder.context.request)
    spoken = [n for n, message in enumerate(messages) if message["type"] in ("ai", "tool")]
    asked = messages[spoken[-1] + 1 :] if spoken else messages
    prompts = [prompt_part(message) for message in asked if message["type"] == "human"]
    if prompts:
        builder.user_turn(prompts)


def repeated(body: Any) -> History:
    """What a request repeats of its conversation."""
    return History(_messages(body))


def _messages(body: Any) -> list[Fields]:
    given = body.get("input", body) if isinstance(body, dict) else body
    given = given.get("messages") if isinstance(given, dict) else given
    given = [given] if isinstance(given, dict | str) else given
    said = [
        {"role": "user", "content": raw} if isinstance(raw, str) else raw
        for raw in (given if isinstance(given, list) else ())
    ]
    return [message for message in map(message_of, said) if message is not None]
