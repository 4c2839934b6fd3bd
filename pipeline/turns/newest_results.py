"""One result for each call, as models and their servers take it: the newest, in the place of the first.

A thread keeps all of them: a tool that takes long first tells that it has begun, and a client may send a result twice.
"""

from collections.abc import Iterator
from typing import Any

from pipeline.turns.asides import without_asides
from topics.json_text import Fields
from topics.part_kinds import ANSWERS


def for_models(document: Fields) -> Fields:
    """Return a thread document as models are told it: without responses beside the answer, one result for each call."""
    return with_newest_results(without_asides(document))


def with_newest_results(document: Fields) -> Fields:
    """Return a thread document with a result for each call; the same document if no call has several."""
    waiting: dict[str, int] = {}  # calls without a result, by id
    first: dict[str, Fields] = {}  # the result of the newest call of each id
    newest: dict[int, Fields] = {}  # by `id()` of the first result
    later: set[int] = set()
    for part in _parts(document):
        call_id, kind = part.get("tool_call_id"), part.get("part_kind")
        if not isinstance(call_id, str) or not call_id:
            continue
        if kind == "tool-call":
            waiting[call_id] = waiting.get(call_id, 0) + 1
        elif kind in ANSWERS:
            if call_id in first and not waiting.get(call_id):
                newest[id(first[call_id])] = part
                later.add(id(part))
            else:
                first[call_id] = part
                waiting[call_id] = max(0, waiting.get(call_id, 0) - 1)
    if not later:
        return document
    return {**document, "turns": [_once(turn, newest, later) for turn in document["turns"]]}


def _parts(document: Fields) -> Iterator[Fields]:
    for turn in document["turns"]:
        for holder in (turn, *turn.get("messages", ())):
            yield from holder.get("parts", ())


def _once(turn: Fields, newest: dict[int, Fields], later: set[int]) -> Fields:
    if "messages" not in turn:
        return {**turn, "parts": _of(turn, newest, later)} if "parts" in turn else turn
    messages: list[Any] = [
        {**message, "parts": _of(message, newest, later)} if message.get("parts") else message
        for message in turn["messages"]
    ]
    kept = zip(messages, turn["messages"], strict=True)
    return {
        **turn,
        "messages": [message for message, before in kept if message.get("parts") or not before.get("parts")],
    }


def _of(holder: Fields, newest: dict[int, Fields], later: set[int]) -> list[Fields]:
    return [newest.get(id(part), part) for part in holder["parts"] if id(part) not in later]
