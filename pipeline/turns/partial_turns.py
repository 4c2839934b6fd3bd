"""Puts what turns had shown and do not keep among their messages, for readers who want to see what users saw.

That is the partial output of interrupted turns, and what answers took back.
"""

from typing import Any, Final

from pipeline.turns.times import epoch_ms
from topics.json_text import Fields, list_of, object_of, objects

PARTIAL: Final = "meta:partial"
RETRACTED: Final = "meta:retracted"  # of a turn, in the form of PARTIAL: what is no longer part of the conversation


def with_partials(document: Fields) -> Fields:
    """Return a thread document with each turn's `meta:partial` among its messages, marked by `meta:partial: true`.

    So is its `meta:retracted`. The result has more than ThreadProtocol keeps of a run.
    """
    return {**document, "turns": [with_partial(turn) for turn in document["turns"]]}


def with_partial(turn: Fields, *, billed: bool = False) -> Fields:
    """Return a turn with its `meta:partial` and `meta:retracted` among its messages.

    `billed`: those of its responses whose tokens count: also some that had shown nothing yet, and none that was taken
    back, whose tokens are told elsewhere.
    """
    messages = [message for message in _beside(turn, PARTIAL) if billed or message.get("parts")]
    taken = [] if billed else _beside(turn, RETRACTED)
    if not messages and not taken:
        return turn
    kept = turn.get("messages")
    head = {"timestamp": turn.get("started_at"), "agent_id": turn.get("agent_id")}
    merged = _merged(list_of(kept), [{**head, **message, RETRACTED: True} for message in taken])
    gone = (PARTIAL,) if billed else (PARTIAL, RETRACTED)
    rest = {key: value for key, value in turn.items() if key not in gone}
    return {**rest, "messages": _merged(merged, [{**message, PARTIAL: True} for message in messages])}


def _beside(turn: Fields, key: str) -> list[Fields]:
    return objects(object_of(turn.get(key)).get("messages"))


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
