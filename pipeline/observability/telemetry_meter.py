"""Telemetry records -> metrics, each record once, whatever its data look like."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metric, Metrics
from topics.telemetry import TelemetryRecord

Labels = dict[str, str | None]
Path = tuple[str, ...]

# Where a usage object may hold a count: ThreadProtocol, camelCase, the AI SDK 5 to 7, OpenAI, Pydantic AI. First wins.
TOKENS: Final[dict[str, tuple[Path, ...]]] = {
    "input": (
        *(("input_tokens",), ("inputTokens", "total"), ("inputTokens",)),
        *(("prompt_tokens",), ("promptTokens",)),
    ),
    "output": (
        *(("output_tokens",), ("outputTokens", "total"), ("outputTokens",)),
        *(("completion_tokens",), ("completionTokens",)),
    ),
    "thinking": (
        *(("thinking_tokens",), ("thinkingTokens",), ("reasoning_tokens",), ("reasoningTokens",)),
        *(("output_reasoning_tokens",), ("outputTokens", "reasoning"), ("outputTokenDetails", "reasoningTokens")),
        *(("completion_tokens_details", "reasoning_tokens"), ("output_tokens_details", "reasoning_tokens")),
        ("details", "reasoning_tokens"),
    ),
    "cache_read": (
        *(("cache_read_tokens",), ("cacheReadTokens",), ("cachedInputTokens",), ("cache_read_input_tokens",)),
        *(("inputTokens", "cacheRead"), ("inputTokenDetails", "cacheReadTokens")),
        *(("prompt_tokens_details", "cached_tokens"), ("input_tokens_details", "cached_tokens")),
        ("details", "cache_read_tokens"),
    ),
    "cache_write": (
        *(("cache_write_tokens",), ("cacheWriteTokens",), ("cache_creation_input_tokens",)),
        *(("inputTokens", "cacheWrite"), ("inputTokenDetails", "cacheWriteTokens")),
        ("details", "cache_write_tokens"),
    ),
    "total": (("total_tokens",), ("totalTokens",)),
}
COST: Final[tuple[Path, ...]] = (("cost", "total"), ("cost",), ("cost_usd",), ("costUsd",), ("total_cost",))
MODEL: Final[tuple[Path, ...]] = (("model_name",), ("modelName",), ("model",))
PROVIDER: Final[tuple[Path, ...]] = (("provider_name",), ("providerName",), ("provider",))
MODEL_LATENCY: Final[tuple[Path, ...]] = (("model_latency_ms",), ("modelLatencyMs",))
TOTAL_LATENCY: Final[tuple[Path, ...]] = (("total_latency_ms",), ("totalLatencyMs",))
CACHE_LATENCY: Final[tuple[Path, ...]] = (("latency_ms",), ("latencyMs",))


class TelemetryMeter:
    """Updates metrics from the records of the telemetry topic.

    A record that comes again (a replay, a second producer) is known by (thread_id, run_id, seq) and not counted;
    `remembered` records are, at least. Data of the wrong shape are counted as malformed, never raised.
    """

    def __init__(self, metrics: Metrics, remembered: int = 100_000) -> None:
        self.metrics = metrics
        self._seen = Seen(remembered)

    def take(self, record: TelemetryRecord) -> None:
        """Count one record."""
        kind = str(record["type"])
        if not self._seen.first(str(record.get("thread_id")), str(record.get("run_id")), record.get("seq")):
            self.metrics.add(m.TELEMETRY_DUPLICATES)
            return
        self.metrics.add(m.TELEMETRY_RECORDS, type=kind)
        count = COUNTED.get(kind)
        if count is None:
            return
        data = record.get("data")
        if not isinstance(data, Mapping):
            self.metrics.add(m.TELEMETRY_MALFORMED, type=kind)
            return
        reading = Reading(data)
        count(self.metrics, reading, _labels(record, reading))
        if reading.malformed:
            self.metrics.add(m.TELEMETRY_MALFORMED, reading.malformed, type=kind)


class Reading:
    """One event's data, read leniently: what is there but of the wrong shape is left out, and counted."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.malformed = 0

    def number(self, paths: Iterable[Path], *, text: bool = False) -> float | None:
        """The first number under `paths`, finite and not negative; `text`: a decimal written as text counts, too."""
        for value in self._values(paths):
            if isinstance(value, Mapping):
                continue  # a longer path looks inside
            if text and isinstance(value, str):
                try:
                    value = float(value)  # noqa: PLW2901
                except ValueError:
                    value = None  # noqa: PLW2901
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
                return float(min(value, 2**63))
            self.malformed += 1
            return None
        return None

    def text(self, paths: Iterable[Path]) -> str | None:
        """The first text under `paths`."""
        return next((value for value in self._values(paths) if isinstance(value, str) and value), None)

    def _values(self, paths: Iterable[Path]) -> Iterable[Any]:
        for path in paths:
            value: Any = self.data
            for key in path:
                value = value.get(key) if isinstance(value, Mapping) else None
            if value is not None:
                yield value


def _labels(record: TelemetryRecord, reading: Reading) -> Labels:
    """Model and provider: what the event says of its response, else what the run said at its start."""
    found: dict[str, Any] = {
        "model": reading.text(MODEL) or record.get("model_name"),
        "provider": reading.text(PROVIDER) or record.get("provider_name"),
        "agent": record.get("agent_name") or record.get("agent_id"),
        "tenant": record.get("tenant"),
    }
    return {name: value if isinstance(value, str) else None for name, value in found.items()}


def _usage(metrics: Metrics, reading: Reading, labels: Labels) -> None:
    counts = {kind: reading.number(paths) for kind, paths in TOKENS.items()}
    total = counts.pop("total")
    if total is not None and counts["input"] is None and counts["output"] is None:
        counts["total"] = total
    for kind, count in counts.items():
        if count:
            metrics.add(m.TOKENS, count, token_type=kind, **labels)
        if count is not None and kind in ("input", "output"):
            metrics.observe(m.TOKEN_USAGE, count, token_type=kind, **labels)
    cost = reading.number(COST, text=True)
    if cost:
        metrics.add(m.COST, cost, **labels)


def _latency(metrics: Metrics, reading: Reading, labels: Labels) -> None:
    _observe_ms(metrics, m.OPERATION_DURATION, reading.number(MODEL_LATENCY), labels)
    _observe_ms(metrics, m.TOTAL_LATENCY, reading.number(TOTAL_LATENCY), labels)


def _cache_hit(metrics: Metrics, reading: Reading, labels: Labels) -> None:
    metrics.add(m.CACHE_HITS, **labels)
    _observe_ms(metrics, m.CACHE_LATENCY, reading.number(CACHE_LATENCY), labels)


def _turn(metrics: Metrics, reading: Reading, labels: Labels) -> None:
    status = reading.text((("status",),))
    status = status if status in ("complete", "interrupted") else None
    reason = m.NO_REASON if status == "complete" else reading.text((("reason",),))
    outcome = {**labels, "status": status, "reason": reason}
    if reading.number((("revision",),)):
        # What the turn did was counted when it first closed; counters can't be taken back.
        metrics.add(m.AGENT_TURNS_REVISED, **outcome)
        return
    metrics.add(m.AGENT_TURNS, **outcome)
    _observe_ms(metrics, m.AGENT_DURATION, reading.number((("duration_ms",),)), {**labels, "status": status})
    _observe_ms(metrics, m.TIME_TO_FIRST_TOKEN, reading.number((("ttft_ms",),)), labels)
    for metric, key in ((m.RESPONSES, "responses"), (m.TOOL_CALLS, "tool_calls"), (m.TOOL_ERRORS, "tool_errors")):
        metrics.add(metric, reading.number(((key,),)) or 0, **labels)


def _observe_ms(metrics: Metrics, metric: Metric, milliseconds: float | None, labels: Labels) -> None:
    if milliseconds is not None:
        metrics.observe(metric, milliseconds / 1000, **labels)


COUNTED: Final[dict[str, Callable[[Metrics, Reading, Labels], None]]] = {
    "data-sys-usage": _usage,
    "data-sys-latency": _latency,
    "data-sys-cache_hit": _cache_hit,
    "data-sys-turn": _turn,
}


class Seen:
    """Which records were counted: the latest ones, between one and two times `records`.

    Known by 64 bits of hash, in two tables of which the older one goes when the newer one is full: beside a hundred
    thousand others, one record in 10^14 is taken for one of them.
    """

    def __init__(self, records: int) -> None:
        self._records = records
        self._size = 2 << records.bit_length()  # slots: never more than half are taken
        self._now, self._before = array("q", bytes(8 * self._size)), array("q")
        self._count = 0

    def first(self, thread_id: str, run_id: str, seq: object) -> bool:
        """Whether this is the first time; a record without a proper seq can't be told apart and always is."""
        if not isinstance(seq, int):
            return True
        known = hash((thread_id, run_id, seq)) or 1  # 0 is a free slot
        slot = self._slot(self._now, known)
        if self._now[slot] == known or (self._before and self._before[self._slot(self._before, known)] == known):
            return False
        self._now[slot] = known
        self._count += 1
        if self._count == self._records:
            self._now, self._before = array("q", bytes(8 * self._size)), self._now
            self._count = 0
        return True

    def _slot(self, slots: array[int], known: int) -> int:
        """Where it is, or would be."""
        slot = known & (self._size - 1)
        while slots[slot] not in (0, known):
            slot = (slot + 1) & (self._size - 1)
        return slot
