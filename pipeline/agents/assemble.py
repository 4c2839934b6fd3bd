"""The assemble role: events -> turns, telemetry, dead letters."""

from __future__ import annotations

import faust

from pipeline.dialects import DIALECTS
from pipeline.kafka.checkpoint import Checkpoint
from pipeline.kafka.ledger import Ledger
from pipeline.kafka.outbox import Outbox
from pipeline.kafka.stage import Stage
from pipeline.metrics import Metrics
from pipeline.redaction_rules import redaction_of
from pipeline.settings import Settings
from pipeline.stores.content import ContentStore
from pipeline.stores.offload import Offload
from topics import catalog


def assemble_stage(app: faust.App, settings: Settings, metrics: Metrics) -> Stage:
    """The stage of this role; results go out through the app's producer. Raises CallerError for bad rules."""
    topic = catalog.EVENTS.full_name(settings.topic_prefix)
    contents = ContentStore.of(settings)
    work = Checkpoint(
        settings,
        DIALECTS,
        Outbox(app.producer),
        Ledger(metrics, topic),
        redaction=redaction_of(settings),
        offload=Offload(contents, settings.content_threshold, metrics) if contents.root is not None else None,
    )
    return Stage("assemble", topic, work, metrics)
