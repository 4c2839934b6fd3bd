"""The metrics role: counts telemetry for Prometheus."""

import logging

from pipeline.kafka.outbox import Producer
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.observability.telemetry_meter import TelemetryMeter
from pipeline.worker.host.group_work import Group, GroupWork
from topics import catalog, telemetry
from turnmill.errors import InvalidRecord
from turnmill.settings import BrokerSettings

log = logging.getLogger(__name__)


def metrics_work(settings: BrokerSettings, metrics: Metrics, _: Producer) -> GroupWork:
    """Return the work of this role. Counts are per worker, and start at 0 with it; for billing, use the store."""
    topic = catalog.TELEMETRY.full_name(settings.topic_prefix)
    meter = TelemetryMeter(metrics)

    async def apply(group: Group) -> None:
        for partition, records in group:
            metrics.add(m.RECORDS_READ, len(records), topic=topic)
            for record in records:
                try:
                    meter.take(telemetry.decode(record.value))
                except InvalidRecord as error:  # not written by Turnmill; a dead letter would preserve nothing
                    log.warning("%s/%d@%d skipped: %s", topic, partition, record.offset, error)
                except Exception:  # not raised: a failed group is applied again, and would be counted twice
                    log.exception("%s/%d@%d skipped", topic, partition, record.offset)
                    metrics.add(m.TELEMETRY_MALFORMED, type=None)

    return GroupWork("metrics", apply, metrics)
