"""The usage in a chunk of Chat Completions: where servers write it, and counts that they leave out of the prompt's."""

from typing import Any, Final

from pipeline.dialects.wire_values import number_or_none
from pipeline.turns import tokens
from topics.json_text import Fields, object_of

CACHES: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")  # Anthropic's names


def usage_of(event: Fields) -> Fields | None:
    """Return the usage in a chunk, by the wire's names; None if it has none."""
    usage = event.get("usage")
    if not (isinstance(usage, dict) and usage):
        usage = _usage_inside(event)
    if not (isinstance(usage, dict) and usage):
        return None
    total, asked, output = (
        number_or_none(usage.get(key)) for key in ("total_tokens", "prompt_tokens", "completion_tokens")
    )
    if asked is None or output is None:
        return usage
    if total is not None and total > asked + output:
        return usage | _beside(usage, total - asked - output)
    if not usage.keys().isdisjoint(CACHES) and (cached := _cached(tokens.counts(usage))) > asked:
        return {**usage, "prompt_tokens": asked + cached, "total_tokens": asked + cached + output}
    return usage


def _usage_inside(event: Fields) -> Any:
    """Return the usage where Groq and Moonshot write it."""
    groq, choices = event.get("x_groq"), event.get("choices")
    if isinstance(groq, dict):
        return groq.get("usage")
    return object_of(choices[0] if isinstance(choices, list) and choices else None).get("usage")


def _beside(usage: Fields, rest: int) -> Fields:
    """Return the counts that change if the total has `rest` more tokens than prompt and completion together.

    These are caches beside the prompt (Anthropic's, behind some gateways), or else thoughts beside the completion; a
    rest that is neither of the counts told, where thoughts are told, is not known.
    """
    known = tokens.counts(usage)
    cached = _cached(known)
    thoughts = known.get("thinking_tokens", 0)
    more = cached if rest in (cached, cached + thoughts) else 0
    changed: Fields = {"prompt_tokens": usage["prompt_tokens"] + more} if more else {}
    if rest > more and (rest - more == thoughts or not thoughts):
        changed["completion_tokens"] = usage["completion_tokens"] + rest - more
        told = object_of(usage.get("completion_tokens_details"))
        changed |= {} if thoughts else {"completion_tokens_details": {**told, "reasoning_tokens": rest - more}}
    return changed


def _cached(counts: dict[str, int]) -> int:
    return counts.get("cache_read_tokens", 0) + counts.get("cache_write_tokens", 0)
