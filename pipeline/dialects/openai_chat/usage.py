"""Usage of Chat Completions: where servers put it, and which of them count thoughts separately."""

from __future__ import annotations

from typing import Any

from topics.json_text import Fields


def usage_of(event: Fields) -> Fields | None:
    """Return the usage in a chunk, by the wire's names; None if it has none."""
    usage = event.get("usage")
    if not (isinstance(usage, dict) and usage):
        groq = event.get("x_groq")
        usage = groq.get("usage") if isinstance(groq, dict) else None
    if not (isinstance(usage, dict) and usage):
        return None
    beside = _thoughts_beside(usage)
    return {**usage, "completion_tokens": usage["completion_tokens"] + beside} if beside else usage


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
