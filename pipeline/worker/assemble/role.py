"""The assemble role: makes turns, telemetry and dead letters of events."""

from collections.abc import Callable, Sequence

from pipeline.dialects import DIALECTS
from pipeline.extras import need
from pipeline.kafka.outbox import Producer
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.content.offload import Offload
from pipeline.stores.content.store import ContentStore
from pipeline.worker.assemble.checkpoint import AssembleWork
from pipeline.worker.assemble.limits import assemble_settings, redaction_of
from pipeline.worker.assemble.metrics import AssemblyMetrics
from topics import catalog
from topics.turn_record import TurnRecord


def assemble_work(settings: Settings, metrics: Metrics, producer: Producer) -> AssembleWork:
    """Return the work of this role. Raises CallerError for settings that can't work."""
    topic = catalog.EVENTS.full_name(settings.topic_prefix)
    contents = ContentStore.of(settings)
    return AssembleWork(
        assemble_settings(settings),
        DIALECTS,
        producer,
        AssemblyMetrics(metrics, topic),
        redaction=redaction_of(settings),
        offload=Offload(contents, settings.content_threshold, metrics) if contents.root is not None else None,
        traces=_traces(settings.otlp_endpoint, topic, metrics),
    )


def _traces(endpoint: str | None, topic: str, metrics: Metrics) -> Callable[[Sequence[TurnRecord], int], None] | None:
    """Return a function that exports spans of turns; None if they are not wanted.

    Raises CallerError without the SDK.
    """
    if endpoint is None:
        return None
    need("otlp", "TURNMILL_OTLP_ENDPOINT")
    from pipeline.observability.turn_traces import TurnTraces  # noqa: PLC0415  # OpenTelemetry's SDK is an extra

    return TurnTraces(endpoint, topic, metrics)
