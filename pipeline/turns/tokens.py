"""The one vocabulary of tokens: maps the names of counts on wires and in SDKs to those of ThreadProtocol.

Stored turns, usage rows and metrics read usage objects by the same table, and so count the same. The table only maps
names. If a wire counts something else under a name, its own folder in `pipeline/dialects` converts the number before
the usage gets here: Anthropic's `input_tokens` exclude the tokens of its caches, and Gemini's `candidatesTokenCount`
excludes the thoughts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pipeline.turns.reading import Path, Reading, at
from topics.json_text import Fields

MAX_COUNT: Final = 2**53  # the largest that JavaScript can read; larger numbers don't count as tokens
NANO: Final = 10**9  # costs in the store are in billionths of a dollar

# ThreadProtocol's name -> paths of the count in a usage object; a dot leads inside. The first that exists is used.
SPELLINGS: Final[dict[str, tuple[str, ...]]] = {
    "input_tokens": (
        "input_tokens",  # ThreadProtocol, Pydantic AI, OpenAI Responses, Anthropic, LangChain
        "inputTokens.total",  # the AI SDK 6 and 7, between its providers
        "inputTokens",  # the AI SDK 5 to 7, AG-UI, Claude Code
        "prompt_tokens",  # OpenAI Chat
        "promptTokens",  # the AI SDK 4
        "promptTokenCount",  # Gemini
        "prompt_token_count",  # Gemini in Python
    ),
    "output_tokens": (
        "output_tokens",
        "outputTokens.total",
        "outputTokens",
        "completion_tokens",
        "completionTokens",
        "candidatesTokenCount",
        "candidates_token_count",
    ),
    "thinking_tokens": (
        "thinking_tokens",
        "thinkingTokens",
        "reasoning_tokens",
        "reasoningTokens",
        "output_reasoning_tokens",  # Pydantic AI
        "thoughtsTokenCount",
        "thoughts_token_count",
        "outputTokens.reasoning",
        "outputTokenDetails.reasoningTokens",
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",  # OpenAI Responses
        "output_tokens_details.thinking_tokens",  # Anthropic
        "output_token_details.reasoning",  # LangChain
        "details.reasoning_tokens",  # Pydantic AI before it had a name for them
    ),
    "cache_read_tokens": (
        "cache_read_tokens",
        "cacheReadTokens",
        "cachedInputTokens",
        "cache_read_input_tokens",  # Anthropic
        "cacheReadInputTokens",  # Claude Code
        "cachedContentTokenCount",
        "cached_content_token_count",
        "prompt_cache_hit_tokens",  # DeepSeek
        "inputTokens.cacheRead",
        "inputTokenDetails.cacheReadTokens",
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "input_token_details.cache_read",
        "details.cache_read_tokens",
    ),
    "cache_write_tokens": (
        "cache_write_tokens",
        "cacheWriteTokens",
        "cacheWriteInputTokens",  # AG-UI
        "cache_creation_input_tokens",
        "cacheCreationInputTokens",
        "inputTokens.cacheWrite",
        "inputTokenDetails.cacheWriteTokens",
        "prompt_tokens_details.cache_write_tokens",
        "input_tokens_details.cache_write_tokens",
        "input_token_details.cache_creation",
        "details.cache_write_tokens",
    ),
    "total_tokens": ("total_tokens", "totalTokens", "totalTokenCount", "total_token_count"),
}
# US dollars, as a number or as the text of one.
COST_SPELLINGS: Final = ("cost.total", "cost", "cost_usd", "costUsd", "costUSD", "total_cost", "total_cost_usd")


def _paths(spellings: Iterable[str]) -> tuple[Path, ...]:
    return tuple(tuple(spelling.split(".")) for spelling in spellings)


COUNTS: Final = tuple(SPELLINGS)
# In the order of older turns, so that the bytes of a turn stay the same.
SUMMED: Final = (*COUNTS[:3], "total_tokens", *COUNTS[3:5], "requests", "tool_calls")
COST: Final = "cost_nano_usd"
PATHS: Final = {**{name: _paths(spellings) for name, spellings in SPELLINGS.items()}, COST: _paths(COST_SPELLINGS)}
# A key of a usage object -> (name, rank of the path for this name, path, its rest after the first step) of the paths
# that begin there, since an object has some five keys, and there are ten times as many paths.
HEADS: Final[dict[str, tuple[tuple[str, int, Path, Path], ...]]] = {
    head: tuple(
        (name, rank, path, path[1:])
        for name, paths in PATHS.items()
        for rank, path in enumerate(paths)
        if path[0] == head
    )
    for head in {path[0]: None for paths in PATHS.values() for path in paths}
}


def normal(usage: Fields) -> Fields:
    """Return a wire's usage in the form of a turn: known counts have ThreadProtocol's names, nulls are dropped.

    A count inside an object is repeated under its name, and the object is kept. Values that the table does not know are
    kept unchanged, and so is a second spelling of a count.
    """
    renamed: dict[str, str] = {}
    repeated: Fields = {}
    counts = _first_paths(usage)
    for name in COUNTS:
        if name not in counts or usage.get(name) is not None:
            continue
        _, path, value = counts[name]
        if len(path) == 1:
            renamed[path[0]] = name
        elif Reading(usage).number((path,), below=MAX_COUNT) is not None:
            repeated[name] = value
    return {renamed.get(key, key): value for key, value in usage.items() if value is not None} | repeated


def _first_paths(usage: Fields) -> dict[str, tuple[int, Path, Any]]:
    """Return, by name of PATHS, the first path that leads to a value (as `Reading.first`): rank, path, value."""
    counts: dict[str, tuple[int, Path, Any]] = {}
    for head, beneath in usage.items():
        for name, rank, path, rest in HEADS.get(head, ()):
            value = at(beneath, rest)
            if value is not None and (name not in counts or rank < counts[name][0]):
                counts[name] = rank, path, value
    return counts


def total(usages: Iterable[Fields]) -> Fields | None:
    """Return the sum over responses, whose usage is `normal`, of the counts that are numbers.

    None where there is none.
    """
    sums: Fields = {}
    for usage in usages:
        for name in SUMMED:
            value = usage.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                sums[name] = sums.get(name, 0) + value
    return sums or None


def read(usage: Reading) -> dict[str, int]:
    """Return the known counts of COUNTS, and `cost_nano_usd`, of a usage object in any spelling."""
    counts = _first_paths(usage.data)
    numbers = {name: usage.number((counts[name][1],), below=MAX_COUNT) for name in COUNTS if name in counts}
    known = {name: int(value) for name, value in numbers.items() if value is not None}
    if COST in counts:
        cost = usage.number((counts[COST][1],), text=True, below=MAX_COUNT / NANO)
        if cost is not None:
            known[COST] = round(cost * NANO)
    return known


def counts(usage: Any) -> dict[str, int]:
    """As `read`, for any value; a missing total is that of input and output."""
    if not isinstance(usage, dict):
        return {}
    known = read(Reading(usage))
    if "total_tokens" not in known and known.keys() & {"input_tokens", "output_tokens"}:
        known["total_tokens"] = known.get("input_tokens", 0) + known.get("output_tokens", 0)
    return known
