"""The metrics role: telemetry -> Prometheus."""

from __future__ import annotations

import logging

import faust

from pipeline import metrics as m
from pipeline.kafka.sink import Group, Sink
from pipeline.kafka.stage import Stage
from pipeline.metrics import Metrics
from pipeline.settings import Settings
from pipeline.telemetry import TelemetryMeter
from topics import catalog, telemetry
from topics.errors import InvalidRecord

log = logging.getLogger(__name__)


def metrics_stage(app: faust.App, settings: Settings, metrics: Metrics) -> Stage:
    """The stage of this role. Counts are the worker's own, and start at 0 with it: billing asks the store."""
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

    return Stage("metrics", topic, Sink("metrics", apply, metrics), metrics)
