"""A worker: one Faust app for each of its roles, in one process. An app hosts its role's stage, in a group of its own.

So roles can run together or apart, and be moved between processes, without reading a topic again; and a store
that stands still does not delay assembly.
"""

import asyncio
import gc
import hashlib
import logging
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import faust
from aiokafka.errors import KafkaError
from prometheus_client import CollectorRegistry

from pipeline.kafka.admin import check_topics
from pipeline.kafka.offsets import begin_group
from pipeline.kafka.outbox import MAX_REQUEST_BYTES
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.accounts.audit import AuditTrail
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.worker.host.batch_consumer import BatchTransport, batch_topic, credentials
from pipeline.worker.host.commits import Stage
from pipeline.worker.host.group_work import GROUP_RECORDS
from pipeline.worker.host.roles import Role
from pipeline.worker.host.work import Batch
from topics.catalog import TURNS
from turnmill.errors import BrokerError
from turnmill.settings import without_password

log = logging.getLogger(__name__)

STALLED_AFTER: Final = 60.0  # seconds with records to read and none applied
SILENT_AFTER: Final = 15.0  # seconds without an answer from the broker
DAY: Final = 86_400.0
METADATA_MS: Final = 5_000  # until a topic that was made anew is noticed; by default aiokafka takes five minutes


async def begin(settings: Settings, roles: Sequence[Role], since: int | None = None) -> None:
    """Set the offsets of `from_now` roles that have read nothing so far: to the end of their topics, or to a time.

    `since` in epoch ms. Raises BrokerError.
    """
    for role in roles:
        if role.from_now:
            try:
                await begin_group(settings, role.group(settings), role.topic, since)
            except (KafkaError, OSError) as error:
                raise BrokerError(f"{role.name} can't begin: {error}") from error


class Worker:
    """The roles of a process, its health, and its metrics, which a health server or a parent queries as `Watched`."""

    def __init__(self, settings: Settings, roles: Sequence[Role]) -> None:
        self.settings = settings
        self.roles = tuple(roles)
        self.metrics = Metrics(settings.metric_series)
        self.apps: list[faust.App] = []
        self._trail = AuditTrail(self._opened, self._lost, notify=settings.webhooks is not None)
        self._store: ThreadStore | None = None  # once there is something to note in it
        self._shown: dict[str, frozenset[int]] = {}  # role -> partitions whose lag is shown
        self._swept: list[int] = []  # the generation of each role at the last collection

    async def start(self) -> None:
        """Start all roles.

        Raises BrokerError if Kafka or a topic is missing, StoreError for a store that these roles can't work with. A
        store that is away is waited for.
        """
        await check_topics(self.settings)
        if any(role.needs_store for role in self.roles):
            await self._check_store()
        await begin(self.settings, self.roles)
        self.apps = [build_app(self.settings, role, self.metrics) for role in self.roles]
        for stage in self.stages:
            stage.removed = self._trail.keep
        self._trail.start()
        await asyncio.gather(*(app.start() for app in self.apps))

    async def _check_store(self) -> None:
        try:
            await (await ThreadStore.open(self.settings.store_url)).close()
        except StoreError as error:
            if not error.transient:
                raise
            log.warning("%s", error)

    async def wait(self) -> None:
        """Wait until a role breaks down, and raise its error."""
        while True:
            await asyncio.sleep(0.5)
            self._observe()
            self._sweep()
            for app in self.apps:
                if app.crashed or app.should_stop:
                    reason = app.crash_reason
                    raise BrokerError(f"{app.conf.id} broke down: {reason!r}") from reason

    async def stop(self) -> None:
        """Make last checkpoints, and leave the groups."""
        await asyncio.gather(*(app.stop() for app in self.apps), return_exceptions=True)
        await self._trail.close()
        if self._store is not None:
            await self._store.close()

    async def _opened(self) -> ThreadStore:
        if self._store is None:
            self._store = await ThreadStore.open(self.settings.store_url)
        return self._store

    def _lost(self, entries: int) -> None:
        log.error("%d notes of removed records are in the log alone", entries)

    @property
    def stages(self) -> list[Stage]:
        """The stage of each role."""
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
        """Free what a rebalance has left: megabytes of partitions and clients in reference cycles.

        The collector would find them very late, since `turnmill worker` slows it down, and memory would only grow.
        """
        generations = [stage.generation for stage in self.stages]
        if generations != self._swept and all(stage.ready for stage in self.stages):
            self._swept = generations
            gc.collect()

    async def registry(self) -> CollectorRegistry:
        """Return its metrics."""
        return self.metrics.registry

    async def stalled(self) -> list[str]:
        """Return reasons for a restart: records wait, nothing is away, and yet none are applied."""
        idle = {stage: time.monotonic() - stage.last_progress for stage in self.stages}
        return [
            f"{stage.name} has records to read and has applied none for {seconds:.0f} s"
            for stage, seconds in idle.items()
            if seconds > STALLED_AFTER and stage.work.trouble is None and any(stage.lags().values())
        ]

    async def waiting(self) -> list[str]:
        """Return reasons why this worker does not do its work now."""
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


def store_mark(url: str) -> str:
    """Return a hash of a store's address. `turnmill doctor` compares the hashes that the workers of a group have."""
    file = url.removeprefix("sqlite:///")
    place = without_password(url) if file == url else f"{platform.node()}:{Path(file).resolve()}"
    return hashlib.sha256(place.encode()).hexdigest()[:8]


def build_app(settings: Settings, role: Role, metrics: Metrics) -> faust.App:
    """Return the Faust app of a role; `app.stage` is its stage."""
    fetch_records = min(settings.fetch_records, GROUP_RECORDS) if role.topic is TURNS else settings.fetch_records
    app = faust.App(
        role.group(settings),
        broker=[f"kafka://{address}" for address in settings.broker_list],
        broker_credentials=credentials(settings),
        broker_client_id=f"turnmill.{store_mark(settings.store_url)}" if role.needs_store else "turnmill",
        store="memory://",
        datadir=settings.home / "faust",
        web_enabled=False,
        topic_partitions=settings.partitions,
        topic_disable_leader=True,
        topic_allow_declare=False,
        reply_create_topic=False,
        consumer_auto_offset_reset="earliest",
        consumer_metadata_max_age_ms=METADATA_MS,
        consumer_max_fetch_size=1_048_576,  # per partition; 4 MB were no faster, and take memory
        stream_wait_empty=False,
        stream_buffer_maxsize=2,
        stream_recovery_delay=0.0,
        table_standby_replicas=0,
        broker_max_poll_records=fetch_records,
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
            try:
                for tp, batch in event.message.value.items():
                    await process(tp.partition, batch, event.message.generation_id)
            finally:
                event.ack()

    async def process(partition: int, batch: Batch, generation: int) -> None:
        try:
            await stage.process(partition, batch, generation)
        except Exception:  # the batch is read again: the stage sees the hole
            log.exception("%s: a batch of %s/%d failed", role.name, stage.topic, partition)
            await asyncio.sleep(0.5)

    @app.timer(1.0, name=f"{role.name}-tick")  # type: ignore[untyped-decorator]  # Faust has no types
    async def tick() -> None:
        await stage.tick()

    app.finalize()
    return app
