"""Token counts: whatever a wire calls them -> the names of ThreadProtocol; the rest is kept as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NAMES = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "totalTokens": "total_tokens",
    "reasoningTokens": "thinking_tokens",
    "thinkingTokens": "thinking_tokens",
    "promptTokens": "input_tokens",
    "completionTokens": "output_tokens",
    "cachedInputTokens": "cache_read_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
}
SUMMED = (
    "input_tokens",
    "output_tokens",
    "thinking_tokens",
    "total_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "requests",
    "tool_calls",
)


def normal(usage: dict[str, Any]) -> dict[str, Any]:
    """Rename known camelCase counts; nulls are dropped."""
    return {NAMES.get(key, key): value for key, value in usage.items() if value is not None}


def total(usages: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The sum over responses, of the counts that are numbers; None where there is none."""
    sums: dict[str, Any] = {}
    for usage in usages:
        for name in SUMMED:
            value = usage.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                sums[name] = sums.get(name, 0) + value
    return sums or None
