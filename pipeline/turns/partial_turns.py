"""Puts the partial output of interrupted turns among their messages, for readers who want to see what users saw."""

from __future__ import annotations

from typing import Any, Final

from pipeline.turns.times import epoch_ms
from topics.json_text import Fields

PARTIAL: Final = "meta:partial"
RETRACTED: Final = "meta:retracted"  # of a turn, in the form of PARTIAL: what is no longer part of the conversation


def with_partials(document: Fields) -> Fields:
    """Return a thread document with each turn's `meta:partial` among its messages, marked by `meta:partial: true`.

    The result has more than ThreadProtocol keeps of an interrupted run.
    """
    return {**document, "turns": [with_partial(turn) for turn in document["turns"]]}


def with_partial(turn: Fields, *, billed: bool = False) -> Fields:
    """Return a turn with its `meta:partial` among its messages; `billed`: also responses that had shown nothing yet."""
    shown = turn.get(PARTIAL)
    raw = shown.get("messages") if isinstance(shown, dict) else None
    some = [message for message in raw if isinstance(message, dict)] if isinstance(raw, list) else []
    messages = [message for message in some if billed or message.get("parts")]
    if not messages:
        return turn
    kept = turn.get("messages")
    marked = [{**message, PARTIAL: True} for message in messages]
    rest = {key: value for key, value in turn.items() if key != PARTIAL}
    return {**rest, "messages": _merged(kept if isinstance(kept, list) else [], marked)}


def _merged(messages: list[Any], shown: list[Fields]) -> list[Any]:
    """Merge by time; of messages of the same time, those of `messages` come first. Each list keeps its order."""
    merged: list[Any] = []
    waiting = list(shown)
    for message in messages:
        at = _time(message)
        while waiting and at is not None and (_time(waiting[0]) or 0) < at:
            merged.append(waiting.pop(0))
        merged.append(message)
    return [*merged, *waiting]


def _time(message: Any) -> int | None:
    return epoch_ms(message.get("timestamp")) if isinstance(message, dict) else None
