"""Usage of Chat Completions: where servers put it, and which of them count thoughts separately."""

from __future__ import annotations

from typing import Any

from topics.json_text import Fields


def usage_of(event: Fields) -> Fields | None:
    """Return the usage in a chunk, by the wire's names; None if it has none."""
    found = event.get("usage")
    if not (isinstance(found, dict) and found):
        groq = event.get("x_groq")
        found = groq.get("usage") if isinstance(groq, dict) else None
    if not (isinstance(found, dict) and found):
        return None
    beside = _thoughts_beside(found)
    return {**found, "completion_tokens": found["completion_tokens"] + beside} if beside else found


def _thoughts_beside(usage: Fields) -> int:
    """Return the thoughts that `completion_tokens` does not include, computed from the total."""
    details = usage.get("completion_tokens_details")
    thoughts = _count(details.get("reasoning_tokens")) if isinstance(details, dict) else None
    total, asked, output = (_count(usage.get(key)) for key in ("total_tokens", "prompt_tokens", "completion_tokens"))
    if thoughts is None or total is None or asked is None or output is None:
        return 0
    return thoughts if thoughts > 0 and total - asked - output == thoughts else 0


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
