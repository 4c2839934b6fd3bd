"""Tokens. Anthropic's `input_tokens` exclude those of caches; here they include cache reads and writes."""

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message
from pipeline.dialects.claude_code.session import Thread
from pipeline.turns import tokens
from topics.json_text import Fields

CACHE_READ: Final = "cache_read_input_tokens"
WRITTEN: Final = "cache_creation_input_tokens"
INPUT: Final = ("input_tokens", CACHE_READ, WRITTEN)


def normal(usage: Any) -> Fields:
    """Return ThreadProtocol's counts of a usage object of the API; {} if it has none."""
    if not isinstance(usage, dict):
        return {}
    known = {key: usage[key] for key in INPUT if _is_count(usage.get(key))}
    counts: Fields = {"input_tokens": sum(known.values())} if known else {}
    if _is_count(usage.get("output_tokens")):
        counts["output_tokens"] = usage["output_tokens"]
    if known.get(CACHE_READ):
        counts["cache_read_tokens"] = known[CACHE_READ]
    if known.get(WRITTEN):
        counts["cache_write_tokens"] = known[WRITTEN]
    match usage.get("output_tokens_details"):
        case {"thinking_tokens": int(count)} if count > 0:
            counts["thinking_tokens"] = count
    return counts if any(counts.values()) else {}


def settle(builder: Builder, thread: Thread, usages: list[Any]) -> None:
    """Set the tokens of the run's responses by the sums in its `result` lines, `usages`.

    If responses have complete counts of their own, from partial messages, and these add up to the sum, they stay.
    Otherwise the last response gets the sum.
    """
    sums = tokens.total([counts for usage in usages if (counts := normal(usage))])
    if not sums:
        return
    responses = [message for message in builder.messages if message.kind == "response" and "usage" in message.fields]
    exact = all(any(message is other for other in thread.exact) for message in responses)
    total = tokens.total([message.fields["usage"] for message in responses])
    if exact and total and all(total.get(key) == sums.get(key) for key in ("input_tokens", "output_tokens")):
        return
    for message in responses:
        del message.fields["usage"]
    last = next((m for m in reversed(builder.messages) if _is_said(thread, m)), None)
    if last is not None:
        last.fields["usage"] = sums
    else:
        builder.total_usage = sums
        builder.telemetry.append((builder.at, "data-sys-usage", sums))


def _is_said(thread: Thread, message: Message) -> bool:
    return message.kind == "response" and not any(message is error for error in thread.errors)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= tokens.MAX_COUNT
