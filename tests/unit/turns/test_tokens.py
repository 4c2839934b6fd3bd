"""One vocabulary: Prometheus and billing count the same, whatever a wire calls its tokens."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.observability.metrics import Metrics
from pipeline.observability.telemetry_meter import TelemetryMeter
from pipeline.stores.costs.rows import usage_rows
from pipeline.turns import tokens

CORPUS = Path(__file__).parents[2] / "corpus"
THREAD = "6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11"
RUN = {"thread_id": THREAD, "run_id": "r", "agent_id": "a"}
CALLS = ("web_searches", "storage_searches", "audio_seconds")
KINDS = {name.removesuffix("_tokens"): name for name in tokens.COUNTS if name not in CALLS}


def prometheus(usage: dict[str, Any]) -> dict[str, int]:
    """What the metrics count of a data-sys-usage event with this usage."""
    metrics = Metrics()
    record: Any = {"v": 1, **RUN, "dialect": "x", "seq": 0, "ts": 0, "type": "data-sys-usage", "data": usage}
    TelemetryMeter(metrics, remembered=1).take(record)
    labels = {"model": "unknown", "provider": "unknown", "agent": "a", "tenant": "unknown"}
    samples = [sample for metric in metrics.registry.collect() for sample in metric.samples]
    values = {(sample.name, *sorted(sample.labels.items())): sample.value for sample in samples}

    def value(name: str, **more: str) -> float | None:
        return values.get((name, *sorted({**labels, **more}.items())))

    found = {name: value("turnmill_tokens_total", token_type=kind) for kind, name in KINDS.items()}
    found |= {kind: value("turnmill_billed_calls_total", kind=kind) for kind in CALLS}
    found["cost_nano_usd"] = (value("turnmill_cost_usd_total") or 0) * tokens.NANO
    return {name: round(count) for name, count in found.items() if count}


def billed(usage: dict[str, Any], place: str) -> dict[str, int]:
    """What the usage rows count of a turn that holds this usage, of its response or of all."""
    response = {"message_type": "response", "timestamp": "2026-01-20T10:00:00.000Z", "parts": []}
    turn = {"turn_type": "agent", "agent_id": "a", "started_at": "2026-01-20T10:00:00.000Z", "messages": [response]}
    (response if place == "response" else turn)["usage" if place == "response" else "total_usage"] = usage
    record: Any = {**RUN, "turn_id": THREAD, "turn": turn, "revision": 0, "status": "complete"}
    rows = usage_rows(record)
    sums = {name: sum(row[name] or 0 for row in rows) for name in (*tokens.COUNTS, "cost_nano_usd")}
    return {name: count for name, count in sums.items() if count}


def counted(usage: dict[str, Any]) -> dict[str, int]:
    """-> what is billed, after a look that metrics and billing count alike, of usage as it came and as a turn holds it.

    Metrics have a total only where they have neither input nor output.
    """
    normal = tokens.normal(usage)
    assert str(normal) == str(tokens.normal(normal))  # NaN is not equal to itself
    expected = prometheus(usage)
    assert prometheus(normal) == expected
    found = [billed(stored, place) for stored in (usage, normal) for place in ("response", "turn")]
    assert all(one == found[0] for one in found)
    assert {name: count for name, count in found[0].items() if name in expected or name != "total_tokens"} == expected
    return found[0]


def at(path: str, value: Any) -> dict[str, Any]:
    """An object with this value under a dotted path."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


SPELLINGS = [(name, spelling) for name, spellings in tokens.SPELLINGS.items() for spelling in spellings]


@pytest.mark.parametrize(("name", "spelling"), SPELLINGS)
def test_every_spelling_counts_alike(name: str, spelling: str) -> None:
    total = {"total_tokens": 7} if name in ("input_tokens", "output_tokens") else {}
    assert counted(at(spelling, 7)) == {name: 7} | total
    assert tokens.normal(at(spelling, 7))[name] == 7


@pytest.mark.parametrize("spelling", tokens.COST_SPELLINGS)
@pytest.mark.parametrize("value", [0.25, "0.25"])
def test_every_spelling_of_the_cost_counts_alike(spelling: str, value: Any) -> None:
    assert counted(at(spelling, value)) == {"cost_nano_usd": 250_000_000}


# As each of these SDKs and servers writes it, and its (input, output, thinking, cache read, cache write, total).
WIRES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "thread-protocol": ({"input_tokens": 50, "output_tokens": 20, "thinking_tokens": 5}, (50, 20, 5, 0, 0, 70)),
    "ai-sdk-4": ({"promptTokens": 50, "completionTokens": 20, "totalTokens": 70}, (50, 20, 0, 0, 0, 70)),
    "ai-sdk-5": (
        {"inputTokens": 50, "outputTokens": 20, "totalTokens": 70, "reasoningTokens": 5, "cachedInputTokens": 9},
        (50, 20, 5, 9, 0, 70),
    ),
    "ai-sdk-6": (
        {
            "inputTokens": 50,
            "inputTokenDetails": {"noCacheTokens": 43, "cacheReadTokens": 3, "cacheWriteTokens": 4},
            "outputTokens": 20,
            "outputTokenDetails": {"textTokens": 19, "reasoningTokens": 1},
            "totalTokens": 70,
        },
        (50, 20, 1, 3, 4, 70),
    ),
    "ai-sdk-provider": (
        {
            "inputTokens": {"total": 50, "noCache": 40, "cacheRead": 8, "cacheWrite": 2},
            "outputTokens": {"total": 20, "text": 13, "reasoning": 7},
        },
        (50, 20, 7, 8, 2, 70),
    ),
    "openai-chat": (
        {
            "prompt_tokens": 50,
            "completion_tokens": 20,
            "total_tokens": 70,
            "prompt_tokens_details": {"cached_tokens": 6, "audio_tokens": 0, "cache_write_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 2, "accepted_prediction_tokens": 0},
        },
        (50, 20, 2, 6, 2, 70),
    ),
    "deepseek": (
        {"prompt_tokens": 50, "completion_tokens": 20, "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 44},
        (50, 20, 0, 6, 0, 70),
    ),
    "openai-responses": (
        {
            "input_tokens": 50,
            "input_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 3},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 70,
        },
        (50, 20, 2, 6, 3, 70),
    ),
    "openai-agents": (
        {
            "requests": 1,
            "input_tokens": 50,
            "input_tokens_details": {"cached_tokens": 6},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 70,
        },
        (50, 20, 2, 6, 0, 70),
    ),
    "anthropic": (  # the wire's folder adds the caches to the input, before the usage gets here
        {
            "input_tokens": 50,
            "cache_creation_input_tokens": 6,
            "cache_read_input_tokens": 5,
            "cache_creation": {"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 20,
            "output_tokens_details": {"thinking_tokens": 4},
            "service_tier": "standard",
        },
        (50, 20, 4, 5, 6, 70),
    ),
    "claude-code": (
        {
            "inputTokens": 50,
            "outputTokens": 20,
            "cacheReadInputTokens": 5,
            "cacheCreationInputTokens": 6,
            "thinkingTokens": 4,
            "webSearchRequests": 0,
        },
        (50, 20, 4, 5, 6, 70),
    ),
    "gemini": (  # its candidates leave out the thoughts: as above
        {
            "promptTokenCount": 50,
            "cachedContentTokenCount": 6,
            "candidatesTokenCount": 20,
            "thoughtsTokenCount": 5,
            "totalTokenCount": 75,
        },
        (50, 20, 5, 6, 0, 75),
    ),
    "gemini-python": (
        {
            "prompt_token_count": 50,
            "cached_content_token_count": 6,
            "candidates_token_count": 20,
            "thoughts_token_count": 5,
            "total_token_count": 75,
        },
        (50, 20, 5, 6, 0, 75),
    ),
    "langgraph": (
        {
            "input_tokens": 50,
            "output_tokens": 20,
            "total_tokens": 70,
            "input_token_details": {"audio": 0, "cache_read": 6, "cache_creation": 3},
            "output_token_details": {"reasoning": 5},
        },
        (50, 20, 5, 6, 3, 70),
    ),
    "ag-ui": (
        {
            "provider": "p",
            "model": "m",
            "inputTokens": 50,
            "outputTokens": 20,
            "totalTokens": 70,
            "reasoningTokens": 5,
            "cachedInputTokens": 6,
            "cacheWriteInputTokens": 3,
        },
        (50, 20, 5, 6, 3, 70),
    ),
    "pydantic-ai": (
        {"input_tokens": 50, "cache_read_tokens": 6, "output_tokens": 20, "details": {"reasoning_tokens": 5}},
        (50, 20, 5, 6, 0, 70),
    ),
    "pydantic-ai-2": ({"input_tokens": 50, "output_tokens": 20, "output_reasoning_tokens": 5}, (50, 20, 5, 0, 0, 70)),
}


@pytest.mark.parametrize("wire", WIRES)
def test_the_usage_objects_of_wires_count_alike(wire: str) -> None:
    usage, expected = WIRES[wire]
    usage = {key: value for key, value in usage.items() if key not in ("model", "provider")}  # labels of the metrics
    assert counted(usage) == {name: count for name, count in zip(tokens.COUNTS, expected, strict=False) if count}


def usages(value: Any) -> Iterator[dict[str, Any]]:
    """The usage objects in any JSON."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, dict) and "usage" in key.lower():
                yield {name: count for name, count in inner.items() if name not in ("model", "provider")}
            yield from usages(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from usages(inner)


def test_the_usage_objects_of_the_corpus_count_alike() -> None:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(path for path in CORPUS.rglob("*") if path.suffix in (".sse", ".json", ".jsonl")):
        text = path.read_text(errors="replace")
        for line in [text] if path.suffix == ".json" else text.splitlines():
            with suppress(ValueError):  # recordings of broken streams
                found |= {json.dumps(usage): usage for usage in usages(json.loads(line.removeprefix("data:")))}
    assert len(found) > 100
    for usage in found.values():
        counted(usage)


NUMBERS = st.integers() | st.floats() | st.booleans() | st.none() | st.text(max_size=3) | st.just({}) | st.just([])


@given(st.dictionaries(st.sampled_from([*(spelling for _, spelling in SPELLINGS), *tokens.COST_SPELLINGS]), NUMBERS))
def test_whatever_the_values_are_they_count_alike(values: dict[str, Any]) -> None:
    usage: dict[str, Any] = {}
    for path, value in values.items():
        *folders, last = path.split(".")
        inside = usage
        for folder in folders:
            if not isinstance(inside.get(folder), dict):
                inside[folder] = {}
            inside = inside[folder]
        inside[last] = value
    counted(usage)


def test_what_a_wire_said_stays() -> None:
    details = {"reasoning_tokens": 8, "audio": 1}
    usage = {"promptTokens": 5, "prompt_tokens": 6, "output_tokens_details": details, "iterations": [1], "x": None}
    assert tokens.normal(usage) == {
        "promptTokens": 5,
        "input_tokens": 6,
        "output_tokens_details": details,
        "iterations": [1],
        "thinking_tokens": 8,
    }


@pytest.mark.parametrize("value", [-1, True, "7", float("nan"), float("inf"), 2**53, []])
def test_what_is_no_count_is_left_out(value: Any) -> None:
    assert counted({"input_tokens": value, "output_tokens": 3}) == {"output_tokens": 3, "total_tokens": 3}


def test_parts_of_tokens_are_none() -> None:
    assert counted({"input_tokens": 7.9}) == {"input_tokens": 7, "total_tokens": 7}
