"""Update metrics from telemetry records, once for each record, whatever its data are."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Final

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metric, Metrics
from pipeline.turns import tokens
from pipeline.turns.tokens import Path, Reading
from topics.telemetry import TelemetryRecord

Labels = dict[str, str | None]

MODEL: Final[tuple[Path, ...]] = (("model_name",), ("modelName",), ("model",))
PROVIDER: Final[tuple[Path, ...]] = (("provider_name",), ("providerName",), ("provider",))
MODEL_LATENCY: Final[tuple[Path, ...]] = (("model_latency_ms",), ("modelLatencyMs",))
TOTAL_LATENCY: Final[tuple[Path, ...]] = (("total_latency_ms",), ("totalLatencyMs",))
CACHE_LATENCY: Final[tuple[Path, ...]] = (("latency_ms",), ("latencyMs",))


class TelemetryMeter:
    """Updates metrics from the records of the telemetry topic.

    A record that comes again (a replay, a second producer) is recognised by its run and its seq, and not counted again;
    at least the latest `remembered` records are recognised. Data of the wrong shape are counted as malformed, and raise
    nothing.
    """

    def __init__(self, metrics: Metrics, remembered: int = 100_000) -> None:
        self.metrics = metrics
        self._seen = Seen(remembered)

    def take(self, record: TelemetryRecord) -> None:
        """Count a record."""
        kind = str(record["type"])
        if not self._seen.first(record):
            self.metrics.add(m.TELEMETRY_DUPLICATES)
            return
        self.metrics.add(m.TELEMETRY_RECORDS, type=kind)
        count = COUNTED.get(kind)
        if count is None:
            return
        data = record.get("data")
        if not isinstance(data, dict):
            self.metrics.add(m.TELEMETRY_MALFORMED, type=kind)
            return
        reading = Reading(data)
        count(self.metrics, reading, _labels(record, reading))
        if reading.malformed:
            self.metrics.add(m.TELEMETRY_MALFORMED, reading.malformed, type=kind)


def _labels(record: TelemetryRecord, reading: Reading) -> Labels:
    """Return the labels.

    Model and provider are those that the event names for its response, else those that the run named at its start.
    """
    values: dict[str, Any] = {
        "model": reading.text(MODEL) or record.get("model_name"),
        "provider": reading.text(PROVIDER) or record.get("provider_name"),
        "agent": record.get("agent_name") or record.get("agent_id"),
        "tenant": record.get("tenant"),
    }
    return {name: value if isinstance(value, str) else None for name, value in values.items()}


def _usage(metrics: Metrics, reading: Reading, labels: Labels) -> None:
    known = tokens.read(reading)
    cost = known.pop("cost_nano_usd", 0) / tokens.NANO
    if known.keys() & {"input_tokens", "output_tokens"}:
        known.pop("total_tokens", None)
    for name, count in known.items():
        kind = name.removesuffix("_tokens")
        if kind == name:
            metrics.add(m.BILLED_CALLS, count, kind=name, **labels)
        elif count:
            metrics.add(m.TOKENS, count, token_type=kind, **labels)
        if kind in ("input", "output"):
            metrics.observe(m.TOKEN_USAGE, count, token_type=kind, **labels)
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
        # The turn was counted when it first closed, and counters can't be decreased.
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
    """Recognises the latest records that were counted before, between one and two times `records`.

    It keeps a 64-bit hash of each in two tables; when the newer table is full, the older one is dropped. With a hundred
    thousand records remembered, one new record in 10^14 is mistaken for one of them.
    """

    def __init__(self, records: int) -> None:
        self._records = records
        self._size = 2 << records.bit_length()  # slots, of which at most half are used
        self._newer, self._older = array("q", bytes(8 * self._size)), array("q", bytes(8 * self._size))
        self._count = 0

    def first(self, record: TelemetryRecord) -> bool:
        """Return True for a record that was not seen before, or without a valid seq (it can't be recognised)."""
        seq = record.get("seq")
        if not isinstance(seq, int):
            return True
        tenant, thread_id, run_id = (record.get(name) for name in ("tenant", "thread_id", "run_id"))
        known = hash((str(tenant or ""), str(thread_id), str(run_id), seq)) or 1  # 0 is a free slot
        slot = self._slot(self._newer, known)
        if self._newer[slot] == known or self._older[self._slot(self._older, known)] == known:
            return False
        self._newer[slot] = known
        self._count += 1
        if self._count == self._records:
            self._newer, self._older = array("q", bytes(8 * self._size)), self._newer
            self._count = 0
        return True

    def _slot(self, slots: array[int], known: int) -> int:
        """Return the slot with this hash, or the free slot for it."""
        slot = known & (self._size - 1)
        while slots[slot] not in (0, known):
            slot = (slot + 1) & (self._size - 1)
        return slot
