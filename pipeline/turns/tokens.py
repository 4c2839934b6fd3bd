"""The one vocabulary of tokens: maps the names of counts on wires and in SDKs to those of ThreadProtocol.

Stored turns, usage rows and metrics read usage objects by the same table, and so count the same. The table only maps
names. If a wire counts something else under a name, its own folder in `pipeline/dialects` converts the number before
the usage gets here: Anthropic's `input_tokens` exclude the tokens of its caches, and Gemini's `candidatesTokenCount`
excludes the thoughts.
"""

import math
from collections.abc import Container, Iterable, Iterator
from typing import Any, Final

from topics.json_text import Fields

Path = tuple[str, ...]

MAX_NUMBER: Final = 2**63  # a larger number counts as this one
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
        "input_token_count",  # Microsoft's Agent Framework
        "promptTokenCount",  # Gemini
        "prompt_token_count",  # Gemini in Python
    ),
    "output_tokens": (
        "output_tokens",
        "outputTokens.total",
        "outputTokens",
        "completion_tokens",
        "completionTokens",
        "output_token_count",
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
        "reasoning_output_token_count",
        "outputTokens.reasoning",
        "outputTokenDetails.reasoningTokens",
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",  # OpenAI Responses
        "output_tokens_details.thinking_tokens",  # Anthropic
        "output_token_details.reasoning",  # LangChain
        "thoughtTokens",  # ACP
        "reasoning_output_tokens",  # Codex
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
        "cached_tokens",  # Kimi
        "cache_read_input_token_count",
        "inputTokens.cacheRead",
        "inputTokenDetails.cacheReadTokens",
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "input_token_details.cache_read",
        "input_token_details.cached_tokens",  # OpenAI Realtime
        "cachedReadTokens",
        "cached_input_tokens",
        "details.cache_read_tokens",
    ),
    "cache_write_tokens": (
        "cache_write_tokens",
        "cacheWriteTokens",
        "cacheWriteInputTokens",  # AG-UI
        "cache_creation_input_tokens",
        "cacheCreationInputTokens",
        "cache_creation_input_token_count",
        "inputTokens.cacheWrite",
        "inputTokenDetails.cacheWriteTokens",
        "prompt_tokens_details.cache_write_tokens",
        "input_tokens_details.cache_write_tokens",
        "input_token_details.cache_creation",
        "cachedWriteTokens",
        "cache_write_input_tokens",
        "details.cache_write_tokens",
    ),
    "total_tokens": ("total_tokens", "totalTokens", "totalTokenCount", "total_token_count"),
    "cache_write_1h_tokens": (  # of `cache_write_tokens`: they cost more than those that are kept for five minutes
        "cache_write_1h_tokens",  # Pydantic AI
        "cacheWrite1h",  # pi-agent
        "cache_creation.ephemeral_1h_input_tokens",  # Anthropic
        "input_token_details.ephemeral_1h_input_tokens",  # LangChain
    ),
    "input_audio_tokens": (
        "input_audio_tokens",  # Pydantic AI
        "prompt_tokens_details.audio_tokens",  # OpenAI Chat
        "input_tokens_details.audio_tokens",
        "input_token_details.audio_tokens",  # OpenAI Realtime
        "input_token_details.audio",  # LangChain
    ),
    "output_audio_tokens": (
        "output_audio_tokens",
        "completion_tokens_details.audio_tokens",
        "output_tokens_details.audio_tokens",
        "output_token_details.audio_tokens",
        "output_token_details.audio",
    ),
    "cache_audio_read_tokens": (  # of `cache_read_tokens` and of `input_audio_tokens`
        "cache_audio_read_tokens",
        "input_token_details.cached_tokens_details.audio_tokens",
    ),
    "input_image_tokens": (
        "input_image_tokens",
        "prompt_tokens_details.image_tokens",
        "input_tokens_details.image_tokens",
        "input_token_details.image_tokens",
    ),
    "output_image_tokens": (
        "output_image_tokens",
        "completion_tokens_details.image_tokens",
        "output_tokens_details.image_tokens",
    ),
    "cache_image_read_tokens": ("cache_image_read_tokens", "input_token_details.cached_tokens_details.image_tokens"),
    "web_searches": (
        "web_searches",
        "server_tool_use.web_search_requests",  # Anthropic
        "webSearchRequests",  # Claude Code's `modelUsage`
        "server_tool_use_details.web_search_requests",  # OpenRouter
        "num_search_queries",  # Perplexity
    ),
    "storage_searches": ("storage_searches",),  # searches of files that the provider stores
    "audio_seconds": ("audio_seconds",),  # Pydantic AI
}
# US dollars, as a number or as the text of one.
COST_SPELLINGS: Final = (
    "cost.total",  # pi-agent
    "cost.total_cost",  # Perplexity
    "cost",
    "cost_usd",
    "costUsd",
    "costUSD",
    "total_cost",
    "total_cost_usd",
    "estimated_cost",  # DeepInfra
)
TIERS: Final = ("service_tier", "speed", "inference_geo")  # what the price may depend on, beside the counts
# A service tier, speed or region of inference at the listed price.
STANDARD: Final = frozenset({"", "standard", "default", "auto", "on_demand", "global", "not_available"})
SUMMED_CALLS: Final = "meta:summed"  # in a usage object: it is the sum of an unknown number of calls
TICKS: Final = 10  # xAI's `cost_in_usd_ticks` in a billionth of a dollar


def _paths(spellings: Iterable[str]) -> tuple[Path, ...]:
    return tuple(tuple(spelling.split(".")) for spelling in spellings)


COUNTS: Final = tuple(SPELLINGS)
SUMMED: Final = frozenset((*COUNTS, "requests", "tool_calls"))
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


class Reading:
    """Lenient reading of an object of unknown shape: a value of the wrong type is skipped, and counted.

    `malformed`: number of values of the wrong type so far.
    """

    def __init__(self, data: Fields) -> None:
        self.data = data
        self.malformed = 0

    def first(self, paths: Iterable[Path]) -> tuple[Path, Any] | None:
        """Return the first of `paths` that leads to a value, and this value.

        An object does not count as a value; a longer path leads inside.

        None if no path leads to one; null counts as absent.
        """
        return next(self._values(paths), None)

    def number(self, paths: Iterable[Path], *, text: bool = False, below: float = math.inf) -> float | None:
        """Return the first value under `paths`, if it is a number from 0 to `below`; else count it as malformed.

        With `text`, a decimal that is written as text is a number, too.
        """
        first = self.first(paths)
        return None if first is None else self.checked(first[1], text=text, below=below)

    def checked(self, value: Any, *, text: bool = False, below: float = math.inf) -> float | None:
        """Return a value as `number` does."""
        if text and isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                value = None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < below:
            return min(value, MAX_NUMBER)
        self.malformed += 1
        return None

    def text(self, paths: Iterable[Path]) -> str | None:
        """Return the first text under `paths` that is not empty."""
        return next((value for _, value in self._values(paths) if isinstance(value, str) and value), None)

    def _values(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Any]]:
        for path in paths:
            value = at(self.data, path)
            if value is not None:
                yield path, value


def at(value: Any, path: Path) -> Any:
    """Return the value at a path; None if there is none, or an object."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return None if isinstance(value, dict) else value


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
        elif Reading(usage).checked(value, below=MAX_COUNT) is not None:
            repeated[name] = value
    return {renamed.get(key, key): value for key, value in usage.items() if value is not None} | repeated


def _first_paths(usage: Fields, but: Container[str] = ()) -> dict[str, tuple[int, Path, Any]]:
    """Return, by name of PATHS, the first path that leads to a value (as `Reading.first`): rank, path, value.

    `but`: keys that are left out.
    """
    counts: dict[str, tuple[int, Path, Any]] = {}
    for head, beneath in usage.items():
        if head in but:
            continue
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
        for name, value in usage.items():
            if name in SUMMED and (type(value) is int or type(value) is float):
                sums[name] = sums.get(name, 0) + value
    return sums or None


def read(usage: Reading) -> dict[str, int]:
    """Return the known counts of COUNTS, and `cost_nano_usd`, of a usage object in any spelling."""
    known: dict[str, int] = {  # ThreadProtocol's names are the first spellings
        name: value
        for name, value in usage.data.items()
        if type(value) is int and name in SPELLINGS and 0 <= value < MAX_COUNT
    }
    if len(known) == len(usage.data):
        return known
    counts = _first_paths(usage.data, known)
    for name, (_, _, value) in counts.items():
        if name != COST and name not in known and (number := usage.checked(value, below=MAX_COUNT)) is not None:
            known[name] = int(number)
    cost = usage.checked(counts[COST][2], text=True, below=MAX_COUNT / NANO) if COST in counts else None
    if cost is not None:
        known[COST] = round(cost * NANO)
    elif "cost_in_usd_ticks" in usage.data:
        ticks = usage.checked(usage.data["cost_in_usd_ticks"], below=MAX_COUNT)
        known |= {} if ticks is None else {COST: round(ticks / TICKS)}
    if usage.data.get("is_byok") is True:  # OpenRouter: `cost` is only its fee, the provider bills the caller's key
        upstream = at(usage.data, ("cost_details", "upstream_inference_cost"))
        if upstream is not None and (paid := usage.checked(upstream, below=MAX_COUNT / NANO)) is not None:
            known[COST] = known.get(COST, 0) + round(paid * NANO)
        elif not known.get(COST):
            known.pop(COST, None)
    return known


def tier_of(usage: Any) -> str | None:
    """Return the tier that a call was served by, as `flex`, `priority`, `batch`, `fast`; None for the standard tier."""
    if not isinstance(usage, dict):
        return None
    named = [
        f"{tier.lower()} only" if key == "inference_geo" else tier.lower()
        for key in TIERS
        if key in usage and isinstance(tier := usage[key], str) and tier.lower() not in STANDARD
    ]
    return " ".join(named) or None


def counts(usage: Any) -> dict[str, int]:
    """As `read`, for any value; a missing total is that of input and output."""
    if not isinstance(usage, dict):
        return {}
    known = read(Reading(usage))
    if "total_tokens" not in known and known.keys() & {"input_tokens", "output_tokens"}:
        known["total_tokens"] = known.get("input_tokens", 0) + known.get("output_tokens", 0)
    return known
