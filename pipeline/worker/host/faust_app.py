"""The Faust app of one role: it hosts the role's stage, in a consumer group of its own.

So roles can run together or apart, and be moved from one process to another, without reading a topic again; and a store
that stands still does not delay assembly.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import faust

from pipeline.kafka.outbox import MAX_REQUEST_BYTES
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.worker.host.group_work import GROUP_RECORDS
from pipeline.worker.host.roles import Role
from pipeline.worker.host.stage import Stage
from pipeline.worker.host.transport import BatchTransport, batch_topic, credentials
from topics.catalog import TURNS

log = logging.getLogger(__name__)

DAY: Final = 86_400.0


def build_app(settings: Settings, role: Role, metrics: Metrics) -> faust.App:
    """Return the Faust app of one role; `app.stage` is its stage."""
    app = faust.App(
        role.group(settings),
        broker=[f"kafka://{address}" for address in settings.broker_list],
        broker_credentials=credentials(settings),
        store="memory://",
        datadir=settings.home / "faust",
        web_enabled=False,
        topic_partitions=settings.partitions,
        topic_disable_leader=True,
        topic_allow_declare=False,
        reply_create_topic=False,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=1_048_576,  # per partition; 4 MB were no faster, and take memory
        stream_wait_empty=False,
        stream_buffer_maxsize=2,
        stream_recovery_delay=0.0,
        table_standby_replicas=0,
        broker_max_poll_records=min(settings.fetch_records, GROUP_RECORDS)
        if role.topic is TURNS
        else settings.fetch_records,
        broker_commit_interval=settings.checkpoint_interval,
        broker_session_timeout=settings.session_timeout,
        broker_heartbeat_interval=min(1.0, settings.session_timeout / 3),  # a rebalance waits for those of all members
        broker_rebalance_timeout=max(20.0, settings.session_timeout),
        broker_request_timeout=max(30.0, settings.session_timeout),
        broker_max_poll_interval=30 * DAY,  # once it is exceeded, aiokafka leaves the group and never comes back
        producer_acks=-1,
        producer_linger=0.005,
        producer_max_batch_size=262_144,
        producer_compression_type=None if settings.compression == "none" else settings.compression,
        producer_max_request_size=MAX_REQUEST_BYTES,
        producer_request_timeout=120.0,
        worker_redirect_stdouts=False,
    )
    app.transport = BatchTransport(app.conf.broker_consumer, app)
    app.producer_transport = app.transport
    work = role.work(settings, metrics, app.producer)
    app.stage = stage = Stage(role.name, role.topic.full_name(settings.topic_prefix), work, metrics)

    @app.agent(batch_topic(app, stage.topic), name=role.name)  # type: ignore[untyped-decorator]  # Faust has no types
    async def read(stream: Any) -> None:
        async for event in stream.noack().events():
            message = event.message
            try:
                await stage.process(message.partition, message.value, message.generation_id)
            except Exception:  # the batch is read again: the stage sees the hole
                log.exception("%s: a batch of %s/%d failed", role.name, stage.topic, message.partition)
                await asyncio.sleep(0.5)
            finally:
                event.ack()

    @app.timer(1.0, name=f"{role.name}-tick")  # type: ignore[untyped-decorator]  # Faust has no types
    async def tick() -> None:
        await stage.tick()

    app.finalize()
    return app
