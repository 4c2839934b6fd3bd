"""Token counts: whatever a wire calls them -> the names of ThreadProtocol; the rest is kept as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

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
COUNTS = (
    "input_tokens",
    "output_tokens",
    "thinking_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "total_tokens",
)
MAX_COUNT = 2**53  # what JavaScript can read; larger is no count of tokens
NANO = 10**9  # a cost in the store is a count of billionths of a dollar


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


def counts(usage: Any) -> dict[str, int]:
    """ThreadProtocol usage -> what is known of COUNTS, and `cost_nano_usd`."""
    if not isinstance(usage, dict):
        return {}
    details = usage.get("details")
    found = {"thinking_tokens": details.get("reasoning_tokens")} if isinstance(details, dict) else {}
    found |= {name: usage[name] for name in COUNTS if usage.get(name) is not None}
    known = {name: int(value) for name, value in found.items() if _is_count(value)}
    if "total_tokens" not in known and known.keys() & {"input_tokens", "output_tokens"}:
        known["total_tokens"] = known.get("input_tokens", 0) + known.get("output_tokens", 0)
    cost = usage.get("cost")
    cost = cost.get("total") if isinstance(cost, dict) else cost
    if _is_count(cost) and cost * NANO < MAX_COUNT:
        known["cost_nano_usd"] = round(cost * NANO)
    return known


def _is_count(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_COUNT
