"""Telemetry records become metrics: every shape of usage, each record once, and bad data never an exception."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.observability.metrics import Metrics
from pipeline.observability.telemetry_meter import TelemetryMeter
from pipeline.turns.tokens import COUNTS
from topics.telemetry import TelemetryRecord

LABELS = {"model": "gpt", "provider": "openai", "agent": "Weather", "tenant": "acme"}


def record(kind: str, data: Any, seq: int = 0, **more: Any) -> TelemetryRecord:
    fields: dict[str, Any] = {
        "v": 1,
        "thread_id": "6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11",
        "run_id": "r1",
        "agent_id": "w",
        "agent_name": "Weather",
        "dialect": "vercel-ai",
        "seq": seq,
        "ts": 1_768_928_342_002,
        "type": kind,
        "data": data,
        "tenant": "acme",
        "model_name": "gpt",
        "provider_name": "openai",
    }
    return {**fields, **more}  # type: ignore[typeddict-item]


class Meter:
    """A meter, and what its metrics say."""

    def __init__(self, **options: Any) -> None:
        self.metrics = Metrics()
        self.meter = TelemetryMeter(self.metrics, **options)

    def take(self, *records: TelemetryRecord) -> Meter:
        for item in records:
            self.meter.take(item)
        return self

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def tokens(self) -> dict[str, float]:
        kinds = [name.removesuffix("_tokens") for name in COUNTS]
        found = {kind: self.value("turnmill_tokens_total", token_type=kind, **LABELS) for kind in kinds}
        return {kind: value for kind, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 50, "output_tokens": 20, "total_tokens": 70}, {"input": 50, "output": 20}),
        (
            {"inputTokens": 50, "outputTokens": 20, "totalTokens": 70, "reasoningTokens": 5, "cachedInputTokens": 9},
            {"input": 50, "output": 20, "thinking": 5, "cache_read": 9},
        ),
        (
            {
                "inputTokens": {"total": 50, "noCache": 40, "cacheRead": 8, "cacheWrite": 2},
                "outputTokens": {"total": 20, "reasoning": 7},
            },
            {"input": 50, "output": 20, "thinking": 7, "cache_read": 8, "cache_write": 2},
        ),
        (
            {
                "inputTokens": 50,
                "inputTokenDetails": {"cacheReadTokens": 3, "cacheWriteTokens": 4},
                "outputTokenDetails": {"reasoningTokens": 1},
            },
            {"input": 50, "cache_read": 3, "cache_write": 4, "thinking": 1},
        ),
        (
            {
                "prompt_tokens": 50,
                "completion_tokens": 20,
                "prompt_tokens_details": {"cached_tokens": 6},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            {"input": 50, "output": 20, "cache_read": 6, "thinking": 2},
        ),
        (
            {"input_tokens": 50, "output_tokens": 20, "details": {"reasoning_tokens": 8}},
            {"input": 50, "output": 20, "thinking": 8},
        ),
        ({"cache_read_input_tokens": 5, "cache_creation_input_tokens": 6}, {"cache_read": 5, "cache_write": 6}),
        (
            {
                "prompt_tokens": 50,
                "prompt_tokens_details": {"audio_tokens": 30},
                "cache_creation": {"ephemeral_1h_input_tokens": 9},
                "server_tool_use": {"web_search_requests": 3},
            },
            {"input": 50, "input_audio": 30, "cache_write_1h": 9},
        ),
        ({"total_tokens": 70}, {"total": 70}),
        ({"input_tokens": 50, "output_tokens": None}, {"input": 50}),
        ({}, {}),
    ],
)
def test_usage_in_every_shape(usage: dict[str, Any], expected: dict[str, float]) -> None:
    meter = Meter().take(record("data-sys-usage", usage))
    assert meter.tokens() == expected
    assert meter.value("turnmill_telemetry_malformed_total", type="data-sys-usage") is None
    for kind in ("input", "output"):
        total = meter.value("gen_ai_client_token_usage_sum", token_type=kind, **LABELS)
        assert total == expected.get(kind)


def test_what_is_billed_and_is_no_token_is_counted_apart() -> None:
    meter = Meter().take(record("data-sys-usage", {"input_tokens": 5, "server_tool_use": {"web_search_requests": 3}}))
    assert meter.value("turnmill_billed_calls_total", kind="web_searches", **LABELS) == 3
    assert meter.tokens() == {"input": 5}


@pytest.mark.parametrize("cost", [0.25, "0.25", {"input": 0.2, "output": 0.05, "total": 0.25}])
def test_cost_in_every_shape(cost: Any) -> None:
    meter = Meter().take(record("data-sys-usage", {"cost": cost}))
    assert meter.value("turnmill_cost_usd_total", **LABELS) == 0.25


def test_latency_and_cache_hits() -> None:
    meter = Meter().take(
        record("data-sys-latency", {"model_latency_ms": 1500, "total_latency_ms": 2000}, 0),
        record("data-sys-cache_hit", {"cache_key": "k", "latency_ms": 4}, 1),
        record("data-sys-cache_hit", {"cache_key": "k"}, 2),
    )
    assert meter.value("gen_ai_client_operation_duration_seconds_sum", **LABELS) == 1.5
    assert meter.value("turnmill_total_latency_seconds_sum", **LABELS) == 2.0
    assert meter.value("turnmill_cache_hits_total", **LABELS) == 2
    assert meter.value("turnmill_cache_hit_latency_seconds_sum", **LABELS) == 0.004
    assert meter.value("turnmill_cache_hit_latency_seconds_count", **LABELS) == 1


TURN = {
    "status": "complete",
    "reason": None,
    "revision": 0,
    "responses": 2,
    "tool_calls": 3,
    "tool_errors": 1,
    "ttft_ms": 250,
    "duration_ms": 4000,
}


def test_a_turn() -> None:
    meter = Meter().take(record("data-sys-turn", TURN, derived=True))
    assert meter.value("turnmill_agent_turns_total", status="complete", reason="none", **LABELS) == 1
    assert meter.value("turnmill_responses_total", **LABELS) == 2
    assert meter.value("turnmill_tool_calls_total", **LABELS) == 3
    assert meter.value("turnmill_tool_errors_total", **LABELS) == 1
    assert meter.value("gen_ai_server_time_to_first_token_seconds_sum", **LABELS) == 0.25
    assert meter.value("gen_ai_invoke_agent_duration_seconds_sum", status="complete", **LABELS) == 4.0


def test_a_reopened_turn_is_one_turn() -> None:
    cut = {**TURN, "status": "interrupted", "reason": "timeout"}
    meter = Meter().take(record("data-sys-turn", cut, 1), record("data-sys-turn", {**TURN, "revision": 1}, 2))
    assert meter.value("turnmill_agent_turns_total", status="interrupted", reason="timeout", **LABELS) == 1
    assert meter.value("turnmill_agent_turns_total", status="complete", reason="none", **LABELS) is None
    assert meter.value("turnmill_agent_turns_revised_total", status="complete", reason="none", **LABELS) == 1
    assert meter.value("turnmill_tool_calls_total", **LABELS) == 3


def test_labels_come_from_the_event_then_from_its_run() -> None:
    usage = {"input_tokens": 1, "model": "claude", "provider": ""}
    meter = Meter().take(record("data-sys-usage", usage, agent_name=None, tenant=None))
    labels = {"model": "claude", "provider": "openai", "agent": "w", "tenant": "unknown"}
    assert meter.value("turnmill_tokens_total", token_type="input", **labels) == 1


def test_unknown_types_are_counted_by_type() -> None:
    meter = Meter().take(record("data-sys-gpu", "hot"))
    assert meter.value("turnmill_telemetry_records_total", type="data-sys-gpu") == 1


def test_a_replay_counts_nothing_twice() -> None:
    records = [record("data-sys-usage", {"input_tokens": 10}, seq) for seq in (3, 7, 1 << 48)]
    meter = Meter().take(*records, *records, record("data-sys-usage", {"input_tokens": 10}, 5), *records)
    assert meter.tokens() == {"input": 40}
    assert meter.value("turnmill_telemetry_duplicates_total") == 6


def test_runs_are_apart() -> None:
    meter = Meter().take(*(record("data-sys-usage", {"input_tokens": 10}, 3, run_id=run) for run in ("a", "b")))
    assert meter.tokens() == {"input": 20}


def test_tenants_are_apart() -> None:
    """Found by the review: who sent telemetry with the ids of another tenant's run kept that from being counted."""
    usage = [record("data-sys-usage", {"input_tokens": 10}, 3, tenant=tenant) for tenant in ("evil", "acme", "acme")]
    meter = Meter().take(*usage)
    assert meter.tokens() == {"input": 10}, "those of acme, once"
    assert meter.value("turnmill_telemetry_duplicates_total") == 1


def test_the_latest_records_are_remembered_and_memory_is_bounded() -> None:
    meter = Meter(remembered=100)
    usage = [record("data-sys-usage", {"input_tokens": 1}, seq, run_id=f"r{seq % 7}") for seq in range(1_000)]
    meter.take(*usage)
    seen = meter.meter._seen
    assert len(seen._newer) + len(seen._older) == 2 * 256
    meter.take(*usage[-100:])
    assert meter.tokens() == {"input": 1_000}
    meter.take(*usage[:100])
    assert meter.tokens() == {"input": 1_100}, "too long ago"


@pytest.mark.parametrize(
    ("kind", "data", "malformed"),
    [
        ("data-sys-usage", None, 1),
        ("data-sys-usage", [1], 1),
        ("data-sys-usage", {"input_tokens": "many", "output_tokens": -1}, 2),
        ("data-sys-usage", {"input_tokens": True, "cost": "free"}, 2),
        ("data-sys-usage", {"input_tokens": float("nan"), "output_tokens": float("inf")}, 2),
        ("data-sys-latency", {"model_latency_ms": "fast"}, 1),
        ("data-sys-cache_hit", "yes", 1),
        ("data-sys-turn", {"duration_ms": {}, "ttft_ms": []}, 1),
    ],
)
def test_wrong_shapes_are_counted(kind: str, data: Any, malformed: int) -> None:
    meter = Meter().take(record(kind, data))
    assert meter.value("turnmill_telemetry_malformed_total", type=kind) == malformed
    assert meter.tokens() == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["input_tokens", "inputTokens", "total", "details", "cost", "model", "status", "revision", "latency_ms"]
            ),
            inner,
            max_size=4,
        )
    ),
)


@given(
    st.sampled_from(["data-sys-usage", "data-sys-latency", "data-sys-cache_hit", "data-sys-turn", "data-sys-x"]),
    JSON,
    JSON,
)
def test_whatever_a_record_holds_the_others_are_counted(kind: str, data: Any, field: Any) -> None:
    broken = record(kind, data, agent_name=field, model_name=field, tenant=field)
    broken["seq"] = field
    nearly_empty: Any = {"type": kind, "data": data}
    meter = Meter().take(broken, nearly_empty, record("data-sys-usage", {"input_tokens": 7}, run_id="r2"))
    assert meter.tokens() == {"input": 7}
    numbers = [sample for family in meter.metrics.registry.collect() for sample in family.samples]
    assert [sample for sample in numbers if not (math.isfinite(sample.value) and sample.value >= 0)] == []
    taken = [sample.value for sample in numbers if sample.name == "turnmill_telemetry_records_total"]
    assert sum(taken) == 3
    if kind != "data-sys-x" and not isinstance(data, dict):
        assert meter.value("turnmill_telemetry_malformed_total", type=kind) == 2
