"""What a run has used that broke off before its usage came: an estimate by a rule, kept apart from what is known. Pure.

Four characters are a token. A call of a model reads all that its run had said before it, as far as the turn has it, and
writes its answer, also one that broke off; where a call's usage is known, the next one reads what that read and wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipeline.turns.partial_turns import with_partial
from pipeline.turns.tokens import counts
from topics import json_text

CHARACTERS: Final = 4  # of a token


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
    return sum(len(one if type(one) is str else json_text.dumps(one)) for one in values if one is not None)
