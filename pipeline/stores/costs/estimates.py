"""Estimate of the usage of a run that broke off before its usage was reported, kept apart from reported usage. Pure.

Four characters count as a token. A model call reads all earlier messages of its run, as far as the turn has them, and
writes its answer, even a partial one. If a call's usage is known, the next call reads that call's input and output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipeline.turns.partial_turns import with_partial
from pipeline.turns.tokens import counts
from topics import json_text

CHARACTERS: Final = 4  # per token


def estimated(turn: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the tokens that an interrupted turn's calls without usage read and wrote; None where there are none."""
    read = written = context = 0
    messages = with_partial({**turn}).get("messages")
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict):
            continue
        known, size = counts(message.get("usage")), -(-_characters(message.get("parts")) // CHARACTERS)
        if known.keys() & {"input_tokens", "output_tokens"}:
            context = known.get("input_tokens", 0) + known.get("output_tokens", 0)
            continue
        if message.get("message_type") == "response":
            read, written = read + context, written + size
        context += size
    return {"input_tokens": read, "output_tokens": written} if written else None


def _characters(parts: Any) -> int:
    some = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    values = [part.get(name) for part in some for name in ("content", "args")]
    return sum(len(value if type(value) is str else json_text.dumps(value)) for value in values if value is not None)
