"""The metrics role: telemetry -> Prometheus."""

from __future__ import annotations

import logging

from pipeline.kafka.outbox import Producer
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.observability.telemetry_meter import TelemetryMeter
from pipeline.settings import Settings
from pipeline.worker.group_work import Group, GroupWork
from topics import catalog, telemetry
from turnmill.errors import InvalidRecord

log = logging.getLogger(__name__)


def metrics_work(settings: Settings, metrics: Metrics, _: Producer) -> GroupWork:
    """Return the work of this role.

    Counts are the worker's own, and start at 0 with it: billing asks the store.
    """
    topic = catalog.TELEMETRY.full_name(settings.topic_prefix)
    meter = TelemetryMeter(metrics)

    async def apply(group: Group) -> None:
        for partition, records in group:
            metrics.add(m.RECORDS_READ, len(records), topic=topic)
            for record in records:
                try:
                    meter.take(telemetry.decode(record.value))
                except InvalidRecord as error:  # somebody else wrote it: no dead letter, there is nothing to save
                    log.warning("%s/%d@%d skipped: %s", topic, partition, record.offset, error)
                except Exception:  # a group that fails is applied again, and what was counted would count twice
                    log.exception("%s/%d@%d skipped", topic, partition, record.offset)
                    metrics.add(m.TELEMETRY_MALFORMED, type=None)

    return GroupWork("metrics", apply, metrics)
