"""Every metric, in one table, and the registry that holds their values.

Names and buckets are those of the OpenTelemetry conventions for generative AI if these define one
(`gen_ai.client.token.usage` is `gen_ai_client_token_usage` here, as Prometheus writes it); all others begin with
`turnmill_`. Labels whose values come from streams (models, agents, tenants, …) are bounded twice: the number of values
of a label, and the number of series of a metric; the rest is counted as `other`. A missing value is `unknown`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from threading import Lock
from typing import Final, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from topics import CORE

Kind = Literal["counter", "gauge", "histogram"]

UNKNOWN: Final = "unknown"
OTHER: Final = "other"
NO_REASON: Final = "none"  # the `reason` of a complete turn
MAX_VALUE_LENGTH: Final = 120
SERIES_PER_VALUE: Final = 20  # most series of one metric, times the number of values that one label may have

# https://github.com/open-telemetry/semantic-conventions-genai: docs/gen-ai/gen-ai-metrics.md
TOKEN_BUCKETS: Final = tuple(float(4**n) for n in range(14))
OPERATION_BUCKETS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
FIRST_TOKEN_BUCKETS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0),
)
HELD_BUCKETS: Final = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
AGENT_BUCKETS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
CHECKPOINT_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

USAGE: Final = ("model", "provider", "agent", "tenant")
# Labels whose values come from streams.
OPEN_LABELS: Final = frozenset({*USAGE, "reason", "type", "dialect"})


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric; `name` as Prometheus shows it. Times in seconds. Compared and hashed by identity."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


# ---- what agents used and did: from the telemetry topic

TOKEN_USAGE: Final = Metric(
    "gen_ai_client_token_usage",
    "histogram",
    "Tokens of one response; token_type is input or output.",
    (*USAGE, "token_type"),
    TOKEN_BUCKETS,
)
OPERATION_DURATION: Final = Metric(
    "gen_ai_client_operation_duration_seconds",
    "histogram",
    "Time that a model took for one response, as its stream reports it.",
    USAGE,
    OPERATION_BUCKETS,
)
TIME_TO_FIRST_TOKEN: Final = Metric(
    "gen_ai_server_time_to_first_token_seconds",
    "histogram",
    "Time from a turn's start to the first part of its first response.",
    USAGE,
    FIRST_TOKEN_BUCKETS,
)
AGENT_DURATION: Final = Metric(
    "gen_ai_invoke_agent_duration_seconds", "histogram", "Duration of one turn.", (*USAGE, "status"), AGENT_BUCKETS
)
TOKENS: Final = Metric(
    "turnmill_tokens_total",
    "counter",
    "Tokens by token_type: input and output; parts of them: thinking (of output), cache_read and cache_write "
    "(of input); total only where a stream reports no other number.",
    (*USAGE, "token_type"),
)
COST: Final = Metric("turnmill_cost_usd_total", "counter", "Cost that streams report, in US dollars.", USAGE)
TOTAL_LATENCY: Final = Metric(
    "turnmill_total_latency_seconds",
    "histogram",
    "Time of one response with all around the model, as its stream reports it.",
    USAGE,
    OPERATION_BUCKETS,
)
CACHE_HITS: Final = Metric("turnmill_cache_hits_total", "counter", "Answers from a cache of the application.", USAGE)
CACHE_LATENCY: Final = Metric(
    "turnmill_cache_hit_latency_seconds", "histogram", "Time that a cache took to answer.", USAGE, FIRST_TOKEN_BUCKETS
)
AGENT_TURNS: Final = Metric(
    "turnmill_agent_turns_total",
    "counter",
    "Turns of agents by status and reason of interruption (none where complete).",
    (*USAGE, "status", "reason"),
)
AGENT_TURNS_REVISED: Final = Metric(
    "turnmill_agent_turns_revised_total",
    "counter",
    "Turns that late events reopened, by the status they have now; counted once in turnmill_agent_turns_total.",
    (*USAGE, "status", "reason"),
)
RESPONSES: Final = Metric("turnmill_responses_total", "counter", "Responses of models in finished turns.", USAGE)
TOOL_CALLS: Final = Metric("turnmill_tool_calls_total", "counter", "Tool calls in finished turns.", USAGE)
TOOL_ERRORS: Final = Metric("turnmill_tool_errors_total", "counter", "Tool calls that failed.", USAGE)
TELEMETRY_RECORDS: Final = Metric(
    "turnmill_telemetry_records_total", "counter", "Telemetry records by the type of their event.", ("type",)
)
TELEMETRY_DUPLICATES: Final = Metric(
    "turnmill_telemetry_duplicates_total", "counter", "Telemetry records that were counted before: replays."
)
TELEMETRY_MALFORMED: Final = Metric(
    "turnmill_telemetry_malformed_total",
    "counter",
    "Telemetry values of the wrong shape, left out; by the type of their event.",
    ("type",),
)

# ---- the pipeline

BUILD: Final = Metric(
    "turnmill_build_info",
    "gauge",
    "1, of this version; core is compiled or interpreted.",
    ("version", "core"),
)
RECORDS_READ: Final = Metric("turnmill_records_read_total", "counter", "Records read from a topic.", ("topic",))
EVENTS_ASSEMBLED: Final = Metric(
    "turnmill_events_assembled_total", "counter", "Stream events that became part of a run.", ("dialect",)
)
DUPLICATES_DROPPED: Final = Metric(
    "turnmill_duplicates_dropped_total", "counter", "Events that were read before, by their seq."
)
TURNS_PRODUCED: Final = Metric(
    "turnmill_turns_produced_total",
    "counter",
    "Turns written to the turns topic by status and reason of interruption (none where complete).",
    ("status", "reason"),
)
DEAD_LETTERS: Final = Metric("turnmill_dead_letters_total", "counter", "Refused records by reason.", ("reason",))
RUNS_OPENED: Final = Metric("turnmill_runs_opened_total", "counter", "Runs whose first event was read.")
RUNS_CLOSED: Final = Metric("turnmill_runs_closed_total", "counter", "Runs whose turns were written.")
RUNS_REOPENED: Final = Metric("turnmill_runs_reopened_total", "counter", "Closed runs that a late event reopened.")
OPEN_TURNS: Final = Metric("turnmill_open_turns", "gauge", "Turns that are being assembled.")
EARLY_EVENTS: Final = Metric("turnmill_early_events", "gauge", "Events that wait for a hole in their run to be filled.")
SEGMENTS_SPILLED: Final = Metric(
    "turnmill_segments_spilled_total", "counter", "Pieces of long-open turns written to the state topic."
)
RUNS_PARKED: Final = Metric(
    "turnmill_runs_parked_total",
    "counter",
    "Open runs that made room: they are built from the state topic at their end.",
)
REDACTIONS: Final = Metric(
    "turnmill_redactions_total", "counter", "Finds that were replaced in turns and telemetry, by rule.", ("rule",)
)
LAG: Final = Metric(
    "turnmill_lag_records",
    "gauge",
    "Records of a partition not yet read by the role of this worker that it is assigned to.",
    ("role", "topic", "partition"),
)
CHECKPOINT_SECONDS: Final = Metric(
    "turnmill_checkpoint_duration_seconds",
    "histogram",
    "Time of one checkpoint: produce, confirm, commit.",
    (),
    CHECKPOINT_BUCKETS,
)
CHECKPOINT_TIME: Final = Metric(
    "turnmill_last_checkpoint_timestamp_seconds",
    "gauge",
    "Epoch time of a role's last checkpoint; its age is time() - this.",
    ("role",),
)
COMMITS: Final = Metric("turnmill_commits_total", "counter", "Commits of offsets.")
REBALANCES: Final = Metric("turnmill_rebalances_total", "counter", "Times that partitions were assigned anew.")
TAKEOVER_SECONDS: Final = Metric(
    "turnmill_takeover_duration_seconds",
    "histogram",
    "Time from an assignment of partitions until their state is read, and records are taken again.",
    ("role",),
    CHECKPOINT_BUCKETS,
)
LAST_PROGRESS: Final = Metric(
    "turnmill_last_progress_timestamp_seconds", "gauge", "Epoch time at which a role last got on.", ("role",)
)

# ---- the content store

CONTENT_OBJECTS: Final = Metric(
    "turnmill_content_objects_total", "counter", "Large values of turns written to the content store."
)
CONTENT_BYTES: Final = Metric("turnmill_content_bytes_total", "counter", "Bytes written to the content store.")
CONTENT_FAILURES: Final = Metric(
    "turnmill_content_failures_total", "counter", "Batches whose large values could not be written, and were again."
)

# ---- the store

STORE_BATCHES: Final = Metric("turnmill_store_batches_total", "counter", "Transactions committed to the store.")
STORE_ROWS: Final = Metric("turnmill_store_rows_total", "counter", "Turn records written to the store.")
STORE_ERASED: Final = Metric(
    "turnmill_store_erased_total", "counter", "Times that a batch brought something of an erased thread."
)
STORE_EXPIRED: Final = Metric(
    "turnmill_store_expired_total",
    "counter",
    "Turn records that were neither stored nor archived, as they were older than the retention; by role.",
    ("role",),
)
EXPIRED_THREADS: Final = Metric(
    "turnmill_expired_threads_total", "counter", "Threads that went, as their retention was over."
)
EXPIRED_TURNS: Final = Metric("turnmill_expired_turns_total", "counter", "Turns of these threads.")
EXPIRED_OBJECTS: Final = Metric(
    "turnmill_expired_objects_total", "counter", "Large values of expired threads that are gone."
)
EXPIRED_BYTES: Final = Metric("turnmill_expired_bytes_total", "counter", "Bytes of these large values.")
EXPIRED_ARCHIVED: Final = Metric(
    "turnmill_expired_archive_rows_total", "counter", "Rows of expired threads that are gone from the archive."
)
COST_LAST_HOUR: Final = Metric(
    "turnmill_cost_last_hour_usd",
    "gauge",
    "Cost of the stored responses of the last hour, of all of which it is known; 0 where a worker has not looked.",
)
BUDGET_USED: Final = Metric(
    "turnmill_budget_used_ratio",
    "gauge",
    "Used of a budget in its current hour, day or month; 1 is all.",
    ("budget",),
)
NOTICES: Final = Metric("turnmill_notices_total", "counter", "Notices that their topic has, by type.", ("type",))
WEBHOOK_ATTEMPTS: Final = Metric(
    "turnmill_webhook_attempts_total",
    "counter",
    "Attempts to deliver an event to a webhook, by outcome: `delivered`, `failed`, `given_up`.",
    ("outcome",),
)
WEBHOOKS_WAITING: Final = Metric(
    "turnmill_webhook_waiting", "gauge", "Events that wait for a webhook to take them, in the whole store."
)
STORE_RETRIES: Final = Metric("turnmill_store_retries_total", "counter", "Transactions that were tried again.")
STORE_FAILURES: Final = Metric("turnmill_store_failures_total", "counter", "Transactions that failed.")

# ---- the archive

ARCHIVE_SEGMENTS: Final = Metric(
    "turnmill_archive_segments_total", "counter", "Segments of turns written to the archive."
)
ARCHIVE_ROWS: Final = Metric("turnmill_archive_rows_total", "counter", "Turn records written to the archive.")
ARCHIVE_BYTES: Final = Metric("turnmill_archive_bytes_total", "counter", "Bytes of Parquet written to the archive.")
ARCHIVE_REFUSED: Final = Metric(
    "turnmill_archive_refused_total", "counter", "Records of the turns topic that are no turn records."
)
ARCHIVE_FAILURES: Final = Metric(
    "turnmill_archive_failures_total", "counter", "Segments that could not be written, and were tried again."
)

# ---- traces

SPANS: Final = Metric("turnmill_spans_total", "counter", "Spans of turns that were made for the collector.")
SPANS_EXPORTED: Final = Metric(
    "turnmill_spans_exported_total", "counter", "Spans that the collector has taken; the rest waits, or is lost."
)
SPANS_FAILED: Final = Metric(
    "turnmill_spans_failed_total", "counter", "Turns of which no span could be made; the log says why."
)

# ---- the gateway

REQUESTS: Final = Metric(
    "turnmill_gateway_requests_total", "counter", "Requests by route and status.", ("method", "route", "status")
)
REQUEST_SECONDS: Final = Metric(
    "turnmill_gateway_request_duration_seconds",
    "histogram",
    "Time of one request, to the end of its answer.",
    ("route",),
    OPERATION_BUCKETS,
)
LOOP_HELD: Final = Metric(
    "turnmill_gateway_loop_held_seconds",
    "histogram",
    "Times of more than 10 ms in which the event loop was held, and nobody was answered.",
    buckets=HELD_BUCKETS,
)
UPLOADS: Final = Metric("turnmill_gateway_uploads", "gauge", "Uploads of runs that are coming in.")
UPLOADED_EVENTS: Final = Metric(
    "turnmill_gateway_events_total", "counter", "Events that were uploaded and published.", ("dialect",)
)
REFUSED_EVENTS: Final = Metric(
    "turnmill_gateway_refused_events_total", "counter", "Uploaded events that could not be published.", ("reason",)
)
PROXIED: Final = Metric(
    "turnmill_gateway_proxied_total", "counter", "Requests that were passed on.", ("upstream", "outcome")
)
PROXIED_BYTES: Final = Metric(
    "turnmill_gateway_proxied_bytes_total", "counter", "Bytes of answers that were passed on.", ("upstream",)
)
PROXY_OPEN: Final = Metric("turnmill_gateway_proxy_open", "gauge", "Requests that are being passed on.")
LIVE_READERS: Final = Metric("turnmill_gateway_live_readers", "gauge", "Live streams that are open.")
LIVE_EVENTS: Final = Metric("turnmill_gateway_live_events_total", "counter", "Events sent on live streams.")
AUDIT_LOST: Final = Metric(
    "turnmill_gateway_audit_lost_total", "counter", "Entries of the audit log that are not in the store."
)
LIVE_CUT: Final = Metric(
    "turnmill_gateway_live_cut_total", "counter", "Live streams that were cut off, as their reader was too slow."
)
LIVE_HELD: Final = Metric("turnmill_gateway_live_held_bytes", "gauge", "Recent records held for live streams.")
LISTED_RUNS: Final = Metric(
    "turnmill_gateway_open_runs", "gauge", "Open runs of the whole pipeline, as GET /v1/runs lists them."
)
SILENT_RUNS: Final = Metric(
    "turnmill_gateway_silent_runs",
    "gauge",
    "Of these, those that are silent for longer than their agent's usually are.",
)

TABLE: Final[tuple[Metric, ...]] = (
    *(TOKEN_USAGE, OPERATION_DURATION, TIME_TO_FIRST_TOKEN, AGENT_DURATION, TOKENS, COST, TOTAL_LATENCY),
    *(CACHE_HITS, CACHE_LATENCY, AGENT_TURNS, AGENT_TURNS_REVISED, RESPONSES, TOOL_CALLS, TOOL_ERRORS),
    *(TELEMETRY_RECORDS, TELEMETRY_DUPLICATES, TELEMETRY_MALFORMED),
    BUILD,
    *(RECORDS_READ, EVENTS_ASSEMBLED, DUPLICATES_DROPPED, TURNS_PRODUCED, DEAD_LETTERS),
    *(RUNS_OPENED, RUNS_CLOSED, RUNS_REOPENED, OPEN_TURNS, EARLY_EVENTS, SEGMENTS_SPILLED, RUNS_PARKED, LAG),
    *(CHECKPOINT_SECONDS, CHECKPOINT_TIME, COMMITS, REBALANCES, TAKEOVER_SECONDS, LAST_PROGRESS),
    *(REDACTIONS, CONTENT_OBJECTS, CONTENT_BYTES, CONTENT_FAILURES),
    *(STORE_BATCHES, STORE_ROWS, STORE_ERASED, STORE_EXPIRED, STORE_RETRIES, STORE_FAILURES),
    *(COST_LAST_HOUR, BUDGET_USED, NOTICES, WEBHOOK_ATTEMPTS, WEBHOOKS_WAITING),
    *(EXPIRED_THREADS, EXPIRED_TURNS, EXPIRED_OBJECTS, EXPIRED_BYTES, EXPIRED_ARCHIVED),
    *(ARCHIVE_SEGMENTS, ARCHIVE_ROWS, ARCHIVE_BYTES, ARCHIVE_REFUSED, ARCHIVE_FAILURES),
    *(SPANS, SPANS_EXPORTED, SPANS_FAILED),
    *(REQUESTS, REQUEST_SECONDS, LOOP_HELD, UPLOADS, UPLOADED_EVENTS, REFUSED_EVENTS),
    *(PROXIED, PROXIED_BYTES, PROXY_OPEN),
    *(AUDIT_LOST, LIVE_READERS, LIVE_EVENTS, LIVE_CUT, LIVE_HELD, LISTED_RUNS, SILENT_RUNS),
)


class Metrics:
    """The values of all metrics of one worker. `series`: most values of each label whose values come from streams."""

    def __init__(self, series: int = 200) -> None:
        # A `_created` sample for each counter would double the series, and nothing reads them.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._bounds = _Bounds(series)
        self._counters = {m: Counter(m.name, m.help, m.labels, registry=self.registry) for m in _of("counter")}
        self._gauges = {m: Gauge(m.name, m.help, m.labels, registry=self.registry) for m in _of("gauge")}
        self._histograms = {
            m: Histogram(m.name, m.help, m.labels, buckets=m.buckets, registry=self.registry) for m in _of("histogram")
        }
        self.set(BUILD, 1, version=version("turnmill"), core=CORE)

    def add(self, metric: Metric, amount: float = 1, /, **labels: str | None) -> None:
        """Increase a counter. Raises KeyError for other metrics, ValueError for a negative amount or other labels."""
        counter = self._counters[metric]
        (counter.labels(*self._bounds.fit(metric, labels)) if metric.labels else counter).inc(amount)

    def set(self, metric: Metric, value: float, /, **labels: str | None) -> None:
        """Set a gauge. Raises KeyError for other metrics."""
        gauge = self._gauges[metric]
        (gauge.labels(*self._bounds.fit(metric, labels)) if metric.labels else gauge).set(value)

    def in_progress(self, metric: Metric, /) -> AbstractContextManager[None]:
        """Return a block that a gauge without labels counts. Raises KeyError for other metrics."""
        return self._gauges[metric].track_inprogress()

    def observe(self, metric: Metric, value: float, /, **labels: str | None) -> None:
        """Add a value to a histogram. Raises KeyError for other metrics."""
        histogram = self._histograms[metric]
        (histogram.labels(*self._bounds.fit(metric, labels)) if metric.labels else histogram).observe(value)

    def forget(self, metric: Metric, /, **labels: str) -> None:
        """Remove one series of a gauge, such as that of a partition that was reassigned to another worker."""
        self._gauges[metric].remove(*(labels[name] for name in metric.labels))


def table() -> list[tuple[str, str, str, str]]:
    """Return rows (name, kind, labels, meaning), for the documentation."""
    return [(metric.name, metric.kind, ", ".join(metric.labels), metric.help) for metric in TABLE]


def _of(kind: Kind) -> list[Metric]:
    return [metric for metric in TABLE if metric.kind == kind]


class _Bounds:
    """Decides which label values are counted by name: the first ones, up to the bound."""

    def __init__(self, values: int) -> None:
        self._values = values
        self._known: dict[str, set[str]] = {label: {UNKNOWN, OTHER} for label in OPEN_LABELS}
        self._series: dict[str, set[tuple[str, ...]]] = {}
        self._lock = Lock()

    def fit(self, metric: Metric, labels: dict[str, str | None]) -> tuple[str, ...]:
        """Return the values of the metric's labels, in its order.

        Raises ValueError for other labels than the metric's.
        """
        if labels.keys() != set(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not {tuple(labels)}")
        with self._lock:
            values = tuple(self._named(name, labels[name]) for name in metric.labels)
            series = self._series.setdefault(metric.name, set())
            if values not in series:
                if len(series) >= self._values * SERIES_PER_VALUE:
                    pairs = zip(metric.labels, values, strict=True)
                    return tuple(OTHER if name in OPEN_LABELS else value for name, value in pairs)
                series.add(values)
            return values

    def _named(self, label: str, value: str | None) -> str:
        if not value:
            return UNKNOWN
        known = self._known.get(label)
        if known is None:
            return value
        text = value[:MAX_VALUE_LENGTH].encode("utf-8", "replace").decode()
        if text not in known:
            if len(known) >= self._values + 2:
                return OTHER
            known.add(text)
        return text
