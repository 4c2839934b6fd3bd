"""A worker: one Faust app for each role, each with its own consumer group, in one process.

Roles in groups of their own can be run together or apart, and moved from one to the other, without reading a topic
anew; and a store that stands still does not hold up assembly.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import faust

from pipeline.errors import BrokerError, CallerError, StoreError
from pipeline.kafka.admin import check_topics
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.sql import ThreadStore
from pipeline.worker.archive_role import archive_stage
from pipeline.worker.assemble_role import assemble_stage
from pipeline.worker.health import HealthServer
from pipeline.worker.metrics_role import metrics_stage
from pipeline.worker.sink import AT_ONCE
from pipeline.worker.stage import Stage
from pipeline.worker.store_role import store_stage
from pipeline.worker.transport import BatchTransport, batch_topic, credentials

log = logging.getLogger(__name__)

ROLES: Final[dict[str, Callable[[faust.App, Settings, Metrics], Stage]]] = {
    "assemble": assemble_stage,
    "metrics": metrics_stage,
    "store": store_stage,
    "archive": archive_stage,
}
STORING: Final = {"store", "archive"}  # the roles that need the store's schema; their records are whole turns
STALLED_AFTER: Final = 60.0  # seconds with records to read and none applied
SILENT_AFTER: Final = 15.0  # seconds without an answer from the broker
DAY: Final = 86_400.0


def default_roles(settings: Settings) -> list[str]:
    """All roles; that of the archive where there is one."""
    return [role for role in ROLES if role != "archive" or settings.archive is not None]


def consumer_group(settings: Settings, role: str) -> str:
    """The group of a role: the same whichever roles share a process."""
    return f"{settings.topic_prefix}-{role}"


def build_app(settings: Settings, role: str, metrics: Metrics) -> faust.App:
    """The Faust app of one role; `app.stage` is its stage."""
    app = faust.App(
        consumer_group(settings, role),
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
        consumer_max_fetch_size=1_048_576,  # of each partition; 4 MB were no faster, and are held in memory
        stream_wait_empty=False,
        stream_buffer_maxsize=2,
        stream_recovery_delay=0.0,
        table_standby_replicas=0,
        broker_max_poll_records=min(settings.fetch_records, AT_ONCE) if role in STORING else settings.fetch_records,
        broker_commit_interval=settings.checkpoint_interval,
        broker_session_timeout=settings.session_timeout,
        broker_heartbeat_interval=min(1.0, settings.session_timeout / 3),  # whoever rebalances waits for the others'
        broker_rebalance_timeout=max(20.0, settings.session_timeout),
        broker_request_timeout=max(30.0, settings.session_timeout),
        broker_max_poll_interval=30 * DAY,  # once exceeded, aiokafka leaves the group and never comes back
        producer_acks=-1,
        producer_linger=0.005,
        producer_max_batch_size=262_144,
        producer_compression_type=None if settings.compression == "none" else settings.compression,
        producer_max_request_size=20_000_000,  # below what the topics take
        producer_request_timeout=120.0,
        worker_redirect_stdouts=False,
    )
    app.transport = BatchTransport(app.conf.broker_consumer, app)
    app.producer_transport = app.transport
    stage = ROLES[role](app, settings, metrics)
    app.stage = stage

    @app.agent(batch_topic(app, stage.topic), name=role)  # type: ignore[untyped-decorator]  # Faust has no types
    async def work(stream: Any) -> None:
        async for event in stream.noack().events():
            message = event.message
            try:
                await stage.process(message.partition, message.value, message.generation_id)
            except Exception:  # the batch is read again: the stage sees the hole
                log.exception("%s: a batch of %s/%d failed", role, stage.topic, message.partition)
                await asyncio.sleep(0.5)
            finally:
                event.ack()

    @app.timer(1.0, name=f"{role}-tick")  # type: ignore[untyped-decorator]  # Faust has no types
    async def tick() -> None:
        await stage.tick()

    app.finalize()
    return app


class Pipeline:
    """The roles of one process, its health, and its metrics."""

    def __init__(self, settings: Settings, roles: Sequence[str]) -> None:
        unknown = sorted(set(roles) - set(ROLES))
        if unknown or not roles:
            raise CallerError(f"no such role: {', '.join(unknown) or 'none given'}; there are {', '.join(ROLES)}")
        self.settings = settings
        self.roles = tuple(roles)
        self.metrics = Metrics(settings.metric_series)
        self.apps: list[faust.App] = []
        self.port = 0
        self._shown: dict[str, frozenset[int]] = {}  # role -> partitions whose lag is shown
        self._swept: list[int] = []  # the generation of each role whose leftovers of before were collected
        self._health = HealthServer(settings.host, settings.port, self.metrics, live=self.stalled, ready=self.waiting)

    async def start(self) -> None:
        """Start all roles. Raises BrokerError where Kafka or a topic is missing, StoreError for a store that these
        roles can't work with; one that is away is waited for.
        """
        self.port = await self._health.start()
        await check_topics(self.settings)
        if STORING & set(self.roles):
            await self._check_store()
        self.apps = [build_app(self.settings, role, self.metrics) for role in self.roles]
        await asyncio.gather(*(app.start() for app in self.apps))

    async def _check_store(self) -> None:
        try:
            await (await ThreadStore.open(self.settings.store_url)).close()
        except StoreError as error:
            if not error.transient:
                raise
            log.warning("%s", error)

    async def wait(self) -> None:
        """Until a role breaks down; its error is raised."""
        while True:
            await asyncio.sleep(0.5)
            self._observe()
            self._sweep()
            for app in self.apps:
                if app.crashed or app.should_stop:
                    reason = app.crash_reason
                    raise BrokerError(f"{app.conf.id} broke down: {reason!r}") from reason

    async def stop(self) -> None:
        """Last checkpoints; leave the groups."""
        await asyncio.gather(*(app.stop() for app in self.apps), return_exceptions=True)
        await self._health.stop()

    @property
    def stages(self) -> list[Stage]:
        """One for each role."""
        return [app.stage for app in self.apps]

    def _observe(self) -> None:
        now, wall = time.monotonic(), time.time()
        for stage in self.stages:
            lags = stage.lags()
            for partition, lag in lags.items():
                self.metrics.set(m.LAG, lag or 0, role=stage.name, topic=stage.topic, partition=str(partition))
            for partition in self._shown.get(stage.name, frozenset()) - lags.keys():  # another worker has it now
                self.metrics.forget(m.LAG, role=stage.name, topic=stage.topic, partition=str(partition))
            self._shown[stage.name] = frozenset(lags)
            self.metrics.set(m.LAST_PROGRESS, wall - (now - stage.last_progress), role=stage.name)
            self.metrics.set(m.CHECKPOINT_TIME, wall - (now - stage.last_commit), role=stage.name)

    def _sweep(self) -> None:
        """Free what a rebalance has left behind: partitions and clients that refer to themselves, megabytes of them.

        The collector would look for them very seldom (`threadmill worker` tells it to), and memory would only grow.
        """
        generations = [stage.generation for stage in self.stages]
        if generations != self._swept and all(stage.ready for stage in self.stages):
            self._swept = generations
            gc.collect()

    def stalled(self) -> list[str]:
        """Why a restart would help: records wait, nothing holds us up, and yet nothing is done."""
        reasons = []
        for stage in self.stages:
            idle = time.monotonic() - stage.last_progress
            if idle > STALLED_AFTER and stage.work.trouble is None and any(stage.lags().values()):
                reasons.append(f"{stage.name} has records to read and has applied none for {idle:.0f} s")
        return reasons

    def waiting(self) -> list[str]:
        """Why this worker does not do its work now."""
        if not self.apps:
            return ["starting"]
        reasons = []
        for stage in self.stages:
            if not stage.ready:
                reasons.append(f"{stage.name} waits for its partitions")
            elif stage.work.trouble is not None:
                reasons.append(f"{stage.name} stands still: {stage.work.trouble}")
            elif (silence := time.monotonic() - stage.last_answer) > SILENT_AFTER:
                reasons.append(f"{stage.name} has had no answer from the brokers for {silence:.0f} s; see its log")
        return reasons
