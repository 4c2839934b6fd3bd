"""Responses beside the answer: calls of models whose output is no part of the conversation, but is billed.

A turn has them behind its other messages: {"message_type": "response", "parts": [], "usage", "meta:purpose", …}, where
the purpose is `compaction`, `summary`, `title`, `advisor` and the like. They count in the turn's total, and have no
part in canonical hashes and exports.
"""

from typing import Any, Final

from topics.json_text import Fields

PURPOSE: Final = "meta:purpose"


def is_aside(message: Any) -> bool:
    """Return True for a response beside the answer."""
    return isinstance(message, dict) and PURPOSE in message and message.get("message_type") == "response"


def without_asides(document: Fields) -> Fields:
    """Return a thread document without such responses; the same document if it has none."""
    turns = [_without(turn) for turn in document["turns"]]
    same = all(new is old for new, old in zip(turns, document["turns"], strict=True))
    return document if same else {**document, "turns": turns}


def _without(turn: Fields) -> Fields:
    messages = turn.get("messages")
    if not isinstance(messages, list) or not any(map(is_aside, messages)):
        return turn
    return {**turn, "messages": [message for message in messages if not is_aside(message)]}
