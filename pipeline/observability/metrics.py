"""Every metric, in one table, and the registry that holds their values.

Names and buckets are those of the OpenTelemetry conventions for generative AI if these define one
(`gen_ai.client.token.usage` is `gen_ai_client_token_usage` here, as Prometheus writes it); all others begin with
`turnmill_`. Labels whose values come from streams (models, agents, tenants, …) are bounded twice: the number of values
of a label, and the number of series of a metric; the rest is counted as `other`. A missing value is `unknown`.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from threading import Lock
from typing import Any, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

from pipeline.policies.pools import LABELS
from topics import CORE
from turnmill.remembered import Remembered

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


def counter(name: str, meaning: str, *labels: str) -> Metric:
    """Return a metric that only grows."""
    return Metric(name, "counter", meaning, labels)


def gauge(name: str, meaning: str, *labels: str) -> Metric:
    """Return a metric that is set."""
    return Metric(name, "gauge", meaning, labels)


def histogram(name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    """Return a metric that counts values by their bucket."""
    return Metric(name, "histogram", meaning, labels, buckets)


# ---- what agents used and did: from the telemetry topic

TOKEN_USAGE: Final = histogram(
    "gen_ai_client_token_usage",
    "Tokens of a response; token_type is input or output.",
    TOKEN_BUCKETS,
    *USAGE,
    "token_type",
)
OPERATION_DURATION: Final = histogram(
    "gen_ai_client_operation_duration_seconds",
    "Time that a model took for a response, as its stream reports it.",
    OPERATION_BUCKETS,
    *USAGE,
)
TIME_TO_FIRST_TOKEN: Final = histogram(
    "gen_ai_server_time_to_first_token_seconds",
    "Time from a turn's start to the first part of its first response.",
    FIRST_TOKEN_BUCKETS,
    *USAGE,
)
AGENT_DURATION: Final = histogram(
    "gen_ai_invoke_agent_duration_seconds", "Duration of a turn.", AGENT_BUCKETS, *USAGE, "status"
)
TOKENS: Final = counter(
    "turnmill_tokens_total",
    "Tokens by token_type: input and output; parts of them: thinking, output_audio, output_image (of output), "
    "cache_read, cache_write, input_audio, input_image (of input), cache_write_1h (of cache_write), cache_audio_read, "
    "cache_image_read (of cache_read); total only where a stream reports no other number.",
    *USAGE,
    "token_type",
)
BILLED_CALLS: Final = counter(
    "turnmill_billed_calls_total",
    "What is billed and is no token, by kind: web_searches, storage_searches, audio_seconds.",
    *USAGE,
    "kind",
)
COST: Final = counter("turnmill_cost_usd_total", "Cost that streams report, in US dollars.", *USAGE)
TOTAL_LATENCY: Final = histogram(
    "turnmill_total_latency_seconds",
    "Time of a response with all around the model, as its stream reports it.",
    OPERATION_BUCKETS,
    *USAGE,
)
CACHE_HITS: Final = counter("turnmill_cache_hits_total", "Answers from a cache of the application.", *USAGE)
CACHE_LATENCY: Final = histogram(
    "turnmill_cache_hit_latency_seconds", "Time that a cache took to answer.", FIRST_TOKEN_BUCKETS, *USAGE
)
AGENT_TURNS: Final = counter(
    "turnmill_agent_turns_total",
    "Turns of agents by status and reason of interruption (none where complete).",
    *USAGE,
    "status",
    "reason",
)
AGENT_TURNS_REVISED: Final = counter(
    "turnmill_agent_turns_revised_total",
    "Turns that late events reopened, by the status they have now; counted once in turnmill_agent_turns_total.",
    *USAGE,
    "status",
    "reason",
)
RESPONSES: Final = counter("turnmill_responses_total", "Responses of models in finished turns.", *USAGE)
TOOL_CALLS: Final = counter("turnmill_tool_calls_total", "Tool calls in finished turns.", *USAGE)
TOOL_ERRORS: Final = counter("turnmill_tool_errors_total", "Tool calls that failed.", *USAGE)
TELEMETRY_RECORDS: Final = counter(
    "turnmill_telemetry_records_total", "Telemetry records by the type of their event.", "type"
)
TELEMETRY_DUPLICATES: Final = counter(
    "turnmill_telemetry_duplicates_total", "Telemetry records that were counted before: replays."
)
TELEMETRY_MALFORMED: Final = counter(
    "turnmill_telemetry_malformed_total",
    "Telemetry values of the wrong shape, left out; by the type of their event.",
    "type",
)

# ---- the pipeline

BUILD: Final = gauge("turnmill_build_info", "1, of this version; core is compiled or interpreted.", "version", "core")
RECORDS_READ: Final = counter("turnmill_records_read_total", "Records read from a topic.", "topic")
EVENTS_ASSEMBLED: Final = counter(
    "turnmill_events_assembled_total", "Stream events that became part of a run.", "dialect"
)
DUPLICATES_DROPPED: Final = counter("turnmill_duplicates_dropped_total", "Events that were read before, by their seq.")
TURNS_PRODUCED: Final = counter(
    "turnmill_turns_produced_total",
    "Turns written to the turns topic by status and reason of interruption (none where complete).",
    "status",
    "reason",
)
DEAD_LETTERS: Final = counter("turnmill_dead_letters_total", "Refused records by reason.", "reason")
RECORDS_REMOVED: Final = counter(
    "turnmill_records_removed_total", "Records that retention removed before this role had read them.", "role", "topic"
)
RUNS_OPENED: Final = counter("turnmill_runs_opened_total", "Runs whose first event was read.")
RUNS_CLOSED: Final = counter("turnmill_runs_closed_total", "Runs whose turns were written.")
RUNS_REOPENED: Final = counter("turnmill_runs_reopened_total", "Closed runs that a late event reopened.")
OPEN_TURNS: Final = gauge("turnmill_open_turns", "Turns that are being assembled.")
EARLY_EVENTS: Final = gauge("turnmill_early_events", "Events that wait for a hole in their run to be filled.")
SEGMENTS_SPILLED: Final = counter(
    "turnmill_segments_spilled_total", "Pieces of long-open turns written to the state topic."
)
RUNS_PARKED: Final = counter(
    "turnmill_runs_parked_total", "Open runs that made room: they are built from the state topic at their end."
)
REDACTIONS: Final = counter(
    "turnmill_redactions_total", "Finds that were replaced in turns and telemetry, by rule.", "rule"
)
LAG: Final = gauge(
    "turnmill_lag_records",
    "Records of a partition not yet read by the role of this worker that it is assigned to.",
    "role",
    "topic",
    "partition",
)
CHECKPOINT_SECONDS: Final = histogram(
    "turnmill_checkpoint_duration_seconds", "Time of one checkpoint: produce, confirm, commit.", CHECKPOINT_BUCKETS
)
CHECKPOINT_TIME: Final = gauge(
    "turnmill_last_checkpoint_timestamp_seconds",
    "Epoch time of a role's last checkpoint; its age is time() - this.",
    "role",
)
COMMITS: Final = counter("turnmill_commits_total", "Commits of offsets.")
REBALANCES: Final = counter("turnmill_rebalances_total", "Times that partitions were assigned anew.")
TAKEOVER_SECONDS: Final = histogram(
    "turnmill_takeover_duration_seconds",
    "Time from an assignment of partitions until their state is read, and records are taken again.",
    CHECKPOINT_BUCKETS,
    "role",
)
LAST_PROGRESS: Final = gauge(
    "turnmill_last_progress_timestamp_seconds", "Epoch time at which a role last got on.", "role"
)

# ---- the content store

CONTENT_OBJECTS: Final = counter(
    "turnmill_content_objects_total", "Large values of turns written to the content store."
)
CONTENT_BYTES: Final = counter("turnmill_content_bytes_total", "Bytes written to the content store.")
CONTENT_FAILURES: Final = counter(
    "turnmill_content_failures_total", "Batches whose large values could not be written, and were again."
)

# ---- the store

STORE_BATCHES: Final = counter("turnmill_store_batches_total", "Transactions committed to the store.")
STORE_ROWS: Final = counter("turnmill_store_rows_total", "Turn records written to the store.")
STORE_ERASED: Final = counter(
    "turnmill_store_erased_total", "Times that a batch brought something of an erased thread."
)
STORE_EXPIRED: Final = counter(
    "turnmill_store_expired_total",
    "Turn records that were neither stored nor archived, as they were older than the retention; by role.",
    "role",
)
EXPIRED_THREADS: Final = counter("turnmill_expired_threads_total", "Threads that went, as their retention was over.")
EXPIRED_TURNS: Final = counter("turnmill_expired_turns_total", "Turns of these threads.")
EXPIRED_OBJECTS: Final = counter("turnmill_expired_objects_total", "Large values of expired threads that are gone.")
EXPIRED_BYTES: Final = counter("turnmill_expired_bytes_total", "Bytes of these large values.")
EXPIRED_ARCHIVED: Final = counter(
    "turnmill_expired_archive_rows_total", "Rows of expired threads that are gone from the archive."
)
COST_DIFFERENCES: Final = counter(
    "turnmill_cost_differences_total",
    "Stored responses whose cost, as the stream told it, differs by more than 1 % from the cost that prices give.",
)
COST_LAST_HOUR: Final = gauge(
    "turnmill_cost_last_hour_usd",
    "Cost of the stored responses of the last hour, of all of which it is known; 0 where a worker has not looked.",
)
BUDGET_USED: Final = gauge(
    "turnmill_budget_used_ratio", "Used of a budget in its current hour, day or month; 1 is all.", "budget"
)
NOTICES: Final = counter("turnmill_notices_total", "Notices that their topic has, by type.", "type")
WEBHOOK_ATTEMPTS: Final = counter(
    "turnmill_webhook_attempts_total",
    "Attempts to deliver an event to a webhook, by outcome: `delivered`, `failed`, `given_up`.",
    "outcome",
)
WEBHOOKS_WAITING: Final = gauge(
    "turnmill_webhook_waiting", "Events that wait for a webhook to take them, in the whole store."
)
STORE_RETRIES: Final = counter("turnmill_store_retries_total", "Transactions that were tried again.")
STORE_FAILURES: Final = counter("turnmill_store_failures_total", "Transactions that failed.")

# ---- the archive

ARCHIVE_SEGMENTS: Final = counter("turnmill_archive_segments_total", "Segments of turns written to the archive.")
ARCHIVE_ROWS: Final = counter("turnmill_archive_rows_total", "Turn records written to the archive.")
ARCHIVE_BYTES: Final = counter("turnmill_archive_bytes_total", "Bytes of Parquet written to the archive.")
ARCHIVE_REFUSED: Final = counter(
    "turnmill_archive_refused_total", "Records of the turns topic that are no turn records."
)
ARCHIVE_FAILURES: Final = counter(
    "turnmill_archive_failures_total", "Segments that could not be written, and were tried again."
)

# ---- traces

SPANS: Final = counter("turnmill_spans_total", "Spans of turns that were made for the collector.")
SPANS_EXPORTED: Final = counter(
    "turnmill_spans_exported_total", "Spans that the collector has taken; the rest waits, or is lost."
)
SPANS_FAILED: Final = counter("turnmill_spans_failed_total", "Turns of which no span could be made; the log says why.")

# ---- the gateway

REQUESTS: Final = counter(
    "turnmill_gateway_requests_total", "Requests by route and status.", "method", "route", "status"
)
REQUEST_SECONDS: Final = histogram(
    "turnmill_gateway_request_duration_seconds",
    "Time of a request, to the end of its answer.",
    OPERATION_BUCKETS,
    "route",
)
LOOP_HELD: Final = histogram(
    "turnmill_gateway_loop_held_seconds",
    "Times of more than 10 ms in which the event loop was held, and nobody was answered.",
    HELD_BUCKETS,
)
UPLOADS: Final = gauge("turnmill_gateway_uploads", "Uploads of runs that are coming in.")
UPLOADED_EVENTS: Final = counter("turnmill_gateway_events_total", "Events that were uploaded and published.", "dialect")
REFUSED_EVENTS: Final = counter(
    "turnmill_gateway_refused_events_total", "Uploaded events that could not be published.", "reason"
)
PROXIED: Final = counter("turnmill_gateway_proxied_total", "Requests that were passed on.", "upstream", "outcome")
PROXIED_BYTES: Final = counter(
    "turnmill_gateway_proxied_bytes_total", "Bytes of answers that were passed on.", "upstream"
)
PROXY_OPEN: Final = gauge("turnmill_gateway_proxy_open", "Requests that are being passed on.")
LIVE_READERS: Final = gauge("turnmill_gateway_live_readers", "Live streams that are open.")
LIVE_EVENTS: Final = counter("turnmill_gateway_live_events_total", "Events sent on live streams.")
AUDIT_LOST: Final = counter("turnmill_gateway_audit_lost_total", "Entries of the audit log that are not in the store.")
LIVE_CUT: Final = counter(
    "turnmill_gateway_live_cut_total", "Live streams that were cut off, as their reader was too slow."
)
LIVE_HELD: Final = gauge("turnmill_gateway_live_held_bytes", "Recent records held for live streams.")
LISTED_RUNS: Final = gauge("turnmill_gateway_open_runs", "Open runs of the whole pipeline, as GET /v1/runs lists them.")
SILENT_RUNS: Final = gauge(
    "turnmill_gateway_silent_runs", "Of these, those that are silent for longer than their agent's usually are."
)

# In the order in which they are defined above.
TABLE: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))


class Metrics:
    """The values of all metrics of a worker. `series`: most values of each label whose values come from streams."""

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
        self._known: Remembered[str, bool] = Remembered(LABELS)  # by label
        self._series: Remembered[tuple[str, ...], bool] = Remembered(LABELS)  # by metric
        self._lock = Lock()

    def fit(self, metric: Metric, labels: dict[str, str | None]) -> tuple[str, ...]:
        """Return the values of the metric's labels, in its order.

        Raises ValueError for other labels than the metric's.
        """
        if labels.keys() != set(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not {tuple(labels)}")
        with self._lock:
            values = tuple(self._named(name, labels[name]) for name in metric.labels)
            if not self._counts(self._series, metric.name, values, self._values * SERIES_PER_VALUE):
                pairs = zip(metric.labels, values, strict=True)
                return tuple(OTHER if name in OPEN_LABELS else value for name, value in pairs)
            return values

    def _named(self, label: str, value: str | None) -> str:
        if not value:
            return UNKNOWN
        if label not in OPEN_LABELS:
            return value
        text = value[:MAX_VALUE_LENGTH].encode("utf-8", "replace").decode()
        return text if text in (UNKNOWN, OTHER) or self._counts(self._known, label, text, self._values) else OTHER

    def _counts(self, memory: Remembered[Any, bool], scope: str, value: Any, most: int) -> bool:
        """Return True if a value is counted by name."""
        if memory.get(scope, value) is None:
            if memory.count(scope) >= most or not memory.has_bytes(value, value=True):
                return False
            memory.put(scope, value, value=True)
        return True
