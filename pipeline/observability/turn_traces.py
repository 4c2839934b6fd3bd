"""Send spans of turns to a collector, by OTLP over HTTP; needs the extra `otlp`.

The SDK's own thread sends them in batches from a bounded queue: if the collector is slow or away, spans are lost, with
no other effect. All options except the endpoint are OpenTelemetry's own variables: OTEL_EXPORTER_OTLP_HEADERS,
OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_MAX_QUEUE_SIZE, …
"""

import atexit
import logging
from collections.abc import Sequence
from importlib.metadata import version
from threading import Thread
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.observability.turn_spans import TurnSpan, turn_span
from topics.turn_record import TurnRecord
from turnmill.wire.traceparent import TraceParent

log = logging.getLogger(__name__)

PATH: Final = "/v1/traces"
END_TIMEOUT: Final = 3.0  # seconds for sending the last spans
NANOSECONDS: Final = 1_000_000  # in a millisecond
NO_PARENT: Final = Context()  # so that a current span of this process doesn't become the parent


class GivenIds(IdGenerator):
    """Returns ids that were set before, for the next span."""

    trace_id = span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class CountingExporter(SpanExporter):
    """Counts the spans that the collector has accepted."""

    def __init__(self, exporter: SpanExporter, metrics: Metrics) -> None:
        self._exporter = exporter
        self._metrics = metrics
        self._over = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._metrics.add(m.SPANS_EXPORTED, len(spans))
        return result

    def shutdown(self) -> None:
        if not self._over:
            self._over = True
            self._exporter.shutdown()


class TurnTraces:
    """Sends a span for each turn record that it is called with; `topic`: the one from which their events were read."""

    def __init__(self, endpoint: str, topic: str, metrics: Metrics) -> None:
        self._topic = topic
        self._metrics = metrics
        self._ids = GivenIds()
        release = version("turnmill")
        named = Resource.create({"service.name": "turnmill", "service.version": release})
        resource = named.merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        url = endpoint if endpoint.endswith(PATH) else endpoint + PATH
        self._exporter = CountingExporter(OTLPSpanExporter(url), metrics)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("turnmill", release)
        atexit.register(self.close)

    def __call__(self, records: Sequence[TurnRecord], partition: int) -> None:
        """Trace turns that are about to be produced; `partition` is that of their events."""
        for record in records:
            try:
                span = turn_span(record)
                if span is not None:
                    self._trace(span, partition)
            except Exception:  # a failure here must not delay the turn
                self._metrics.add(m.SPANS_FAILED)
                log.exception("turn %s has no span", record["turn_id"])

    def _trace(self, turn: TurnSpan, partition: int) -> None:
        source = {
            "messaging.system": "kafka",
            "messaging.operation.type": "process",
            "messaging.destination.name": self._topic,
            "messaging.destination.partition.id": str(partition),
        }
        self._ids.trace_id, self._ids.span_id = turn.trace_id, turn.span_id
        span = self._tracer.start_span(
            turn.name,
            context=NO_PARENT,
            kind=SpanKind.CONSUMER,
            attributes={**turn.attributes, **source},
            links=[] if turn.link is None else [Link(_context(turn.link))],
            start_time=turn.start * NANOSECONDS,
        )
        span.add_event("turnmill.assembled")
        if turn.error is not None:
            span.set_status(Status(StatusCode.ERROR, turn.error))
        span.end(turn.end * NANOSECONDS)
        self._metrics.add(m.SPANS)

    def close(self) -> None:
        """Send the remaining spans, for at most END_TIMEOUT seconds."""
        atexit.unregister(self.close)
        ending = Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(END_TIMEOUT)
        self._exporter.shutdown()  # else it would retry for half a minute


def _context(span: TraceParent) -> SpanContext:
    trace_id, span_id = int(span.trace_id, 16), int(span.span_id, 16)
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(span.flags))
