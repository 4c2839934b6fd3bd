"""Thread document -> lines of a data set for fine-tuning, in the form of Chat Completions (`sft`). Pure.

    {"messages": […], "tools": […], "metadata": {"thread_id", "turn_id", "hash"}}

Each complete agent turn has a line: the turn, with what led to it on its branch, and what the model was asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pipeline.dialects.asked import system_prompts, tools_of
from pipeline.dialects.openai_chat import export
from pipeline.turns.branches import one_branch
from pipeline.turns.canonical import turn_hash
from pipeline.turns.requests import named
from topics.json_text import Fields

KEPT: Final = ("role", "content", "name", "tool_calls", "tool_call_id", "refusal")


def sft(document: Fields, bodies: Mapping[str, Fields]) -> Iterator[Fields]:
    """Yield a line for each complete agent turn that says something. `bodies`: what models were asked, by hash."""
    for turn in document["turns"]:
        if turn.get("turn_type") != "agent" or turn.get("completion_status") != "complete":
            continue
        if not any(message["role"] == "assistant" for message in _messages(document, [turn])):
            continue
        said = _said(document, turn)
        while said[-1]["role"] != "assistant":  # a result that the model has not seen
            said.pop()
        asked = asked_in(turn, bodies)
        system = [{"role": "system", "content": text} for text in system_prompts(asked)]
        yield {"messages": [*system, *said], "tools": tools_of(asked), "metadata": provenance(document, turn)}


def provenance(document: Fields, turn: Fields) -> Fields:
    """Return the place of a turn, and its canonical hash."""
    return {"thread_id": document["thread_id"], "turn_id": turn.get("meta:turn_id"), "hash": turn_hash(turn)}


def asked_in(turn: Fields, bodies: Mapping[str, Fields]) -> Fields:
    """Return what the first response of a turn that names its request was asked, {} where that is not known."""
    return next((bodies.get(name, {}) for name in named(turn)), {})


def needed(document: Fields) -> list[str]:
    """Return the hashes of the requests that `asked_in` looks at, each once."""
    return list(dict.fromkeys(name for turn in document["turns"] for name in named(turn)[:1]))


def _said(document: Fields, turn: Fields) -> list[Fields]:
    """Return the messages of a turn's branch up to the turn."""
    before: list[Fields] = []
    for one in one_branch(document, turn.get("meta:run_id"))["turns"]:
        before.append(one)
        if one is turn:
            break
    return _messages(document, before)


def _messages(document: Fields, turns: list[Fields]) -> list[Fields]:
    found = export.messages({**document, "turns": turns})
    return [{key: message[key] for key in KEPT if key in message} for message in found]
