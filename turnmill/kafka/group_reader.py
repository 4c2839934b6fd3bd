"""A member of a consumer group: the records it has received, how far they are processed, and how it handles rebalances.

Kafka reassigns all partitions whenever a member joins or leaves. Processed records of a partition are committed before
it is revoked; the next owner reads the others again. Each assignment is a *generation*: a record of an earlier one is
neither returned nor committed.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from aiokafka import AIOKafkaConsumer, TopicPartition, errors
from aiokafka.abc import ConsumerRebalanceListener

from turnmill.ending import in_time, stopped
from turnmill.errors import BrokerError
from turnmill.kafka.client import client_options
from turnmill.kafka.client_log import RARELY, client_log
from turnmill.kafka.refusal import refusal
from turnmill.kafka.unpacking import bounded
from turnmill.settings import ClientSettings

Start = Literal["earliest", "latest"] | datetime | Mapping[int, int]

ANSWER_TIMEOUT: Final = 10.0  # seconds
FIRST_RETRY_DELAY: Final = 1.0  # seconds before the first further try to connect; doubled up to
MAX_RETRY_DELAY: Final = 15.0
POLL_MS: Final = 250  # the longest time until a `close` is noticed
POLL_RECORDS: Final = 100  # most records of a poll
SESSION_MS: Final = 10_000  # without a heartbeat, until other members get the partitions
HANDOVER_TIMEOUT: Final = 10.0  # seconds that a rebalance waits for the current record
COMMIT_TIMEOUT: Final = 5.0  # seconds for the commit before partitions are revoked, and at the end
COMMIT_INTERVAL: Final = 1.0  # seconds
NOT_ALLOWED: Final = (errors.TopicAuthorizationFailedError, errors.GroupAuthorizationFailedError)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Received:
    """A record, and the generation in which it was received."""

    generation: int
    partition: TopicPartition
    record: Any  # aiokafka's ConsumerRecord


class GroupReader(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A reader of a topic. Without a group it reads all partitions from `start`, and commits nothing."""

    def __init__(
        self, settings: ClientSettings, topic: str, group: str | None, start: Start, body_within: float
    ) -> None:
        self.settings = settings
        self.topic = topic
        self.group = group
        self.start = start
        self.body_within = body_within
        self.generation = 0
        self._consumer: AIOKafkaConsumer | None = None
        self._flowing = asyncio.Event()  # set while start positions are known, until the next rebalance
        self._idle = asyncio.Event()  # no record is being processed
        self._idle.set()
        self._done: dict[TopicPartition, int] = {}  # the offset after the last processed record
        self._committed: dict[TopicPartition, int] = {}
        self._committing = asyncio.Lock()
        self._commit_at = 0.0
        self._placing: asyncio.Task[None] | None = None
        # For `poll` to raise: the broker refuses to report start positions.
        self._refused: errors.KafkaError | None = None

    # ---- reading

    async def open(self) -> None:
        """Connect; retry while no broker answers. Raises CallerError for wrong settings, BrokerError without topic."""
        pause, numbers = FIRST_RETRY_DELAY, set[int]()
        while self._consumer is None:
            consumer = self._new_consumer()
            try:
                with client_log(RARELY):
                    async with asyncio.timeout(ANSWER_TIMEOUT):
                        await consumer.start()
                        cluster = await consumer._client.fetch_all_metadata()  # noqa: SLF001  # `topics()` drops the rest
                numbers = cluster.partitions_for_topic(self.topic)
                if not numbers:
                    raise BrokerError(
                        f"{self.settings.brokers} has no topic {self.topic}: `turnmill topics apply` creates it"
                    )
            except (errors.KafkaError, OSError, TimeoutError) as error:
                await _stop(consumer)
                if reason := await refusal(self.settings):
                    raise reason from error
                log.warning("no Kafka broker answers at %s: trying again in %.0f s", self.settings.brokers, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_RETRY_DELAY)
            except BaseException:
                await _stop(consumer)
                raise
            else:
                self._consumer = consumer
        if self.group is None:
            partitions = [TopicPartition(self.topic, number) for number in numbers]
            self._consumer.assign(partitions)
            await self.on_partitions_assigned(partitions)
        else:
            self._consumer.subscribe([self.topic], listener=self)

    def _new_consumer(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            **client_options(self.settings),
            client_id=self.group or "turnmill",
            group_id=self.group,
            enable_auto_commit=False,
            # If retention has removed the next record, reading continues at the first remaining record.
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=SESSION_MS // 5,
            max_poll_interval_ms=int(self.body_within * 1000),
        )
        return bounded(consumer)

    async def poll(self) -> list[Received]:
        """Return the records that come within POLL_MS. Raises BrokerError."""
        assert self._consumer is not None  # `open` came first
        if not self._flowing.is_set():
            await in_time(self._flowing.wait(), POLL_MS / 1000)
        try:
            if self._refused is not None:
                raise self._refused
            if not self._flowing.is_set():  # records that aiokafka returns now may be from another position
                return []
            batches = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS)
        except errors.KafkaError as error:
            if not error.retriable:
                wrong = BrokerError(f"Kafka at {self.settings.brokers}: {error}")
                raise await refusal(self.settings) or wrong from error
            log.warning("Kafka at %s: %r; reading goes on when it answers", self.settings.brokers, error)
            await asyncio.sleep(FIRST_RETRY_DELAY)
            return []
        # aiokafka took these records after any rebalance that happened while we waited. Records taken before the start
        # positions are set are dropped, since they are read again from there; all others are of this generation.
        if not self._flowing.is_set():
            return []
        return [
            Received(self.generation, partition, record) for partition, records in batches.items() for record in records
        ]

    def current(self, heard: Received) -> bool:
        """Return True if the record's partition is still ours and no rebalance is under way."""
        return heard.generation == self.generation and self._flowing.is_set()

    # ---- how far it is done

    def begun(self) -> None:
        """Note that a record is being processed: a rebalance waits for it up to HANDOVER_TIMEOUT."""
        self._idle.clear()

    def rested(self) -> None:
        """Note that no record is being processed."""
        self._idle.set()

    def done(self, heard: Received) -> None:
        """Note that the partition is processed up to this record, unless it was reassigned meanwhile."""
        if heard.generation == self.generation:
            self._done[heard.partition] = heard.record.offset + 1

    async def commit_if_due(self) -> None:
        """Commit the processed offsets, at most every COMMIT_INTERVAL seconds."""
        if time.monotonic() >= self._commit_at:
            await self.commit()

    async def commit(self) -> None:
        """Commit the processed offsets. It is no error if the group has excluded us: other members read them again."""
        self._commit_at = time.monotonic() + COMMIT_INTERVAL
        if self.group is None or self._consumer is None:
            return
        async with self._committing:
            offsets = {partition: end for partition, end in self._done.items() if self._committed.get(partition) != end}
            if not offsets:
                return
            try:
                await self._consumer.commit(offsets)
            except (errors.CommitFailedError, errors.IllegalStateError):
                log.info("%s: the group has gone on without this member: some records are received again", self.group)
            except errors.KafkaError as error:
                log.warning("%s: not committed, and tried again: %r", self.group, error)
            else:
                self._committed.update(offsets)

    async def close(self) -> None:
        """Commit the processed offsets and leave the group; takes some seconds at most, even if the broker is away."""
        consumer = self._consumer
        if consumer is None:
            return
        await in_time(self.commit(), COMMIT_TIMEOUT)
        self._consumer = None
        self._idle.set()
        if self._placing is not None:
            self._placing.cancel()
        await _stop(consumer)

    # ---- rebalances: aiokafka awaits these between two assignments

    async def on_partitions_revoked(self, revoked: object) -> None:
        """Wait for the current record, commit, and forget the offsets of this generation."""
        self._flowing.clear()
        if self._placing is not None:
            self._placing.cancel()
        await in_time(self._idle.wait(), HANDOVER_TIMEOUT)
        await in_time(self.commit(), COMMIT_TIMEOUT)
        self.generation += 1
        self._done, self._committed = {}, {}

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Find the start positions in a separate task: while aiokafka waits for us, it does not answer the broker."""
        self.generation += 1
        self._placing = asyncio.create_task(self._find_starts(list(assigned)))

    async def _find_starts(self, partitions: list[TopicPartition]) -> None:
        """Seek to the group's committed offset in each partition; without it, to `start`, which is then committed."""
        generation, pause = self.generation, FIRST_RETRY_DELAY
        while self._consumer is not None:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT):
                    await self._seek(partitions, generation)
            except errors.IllegalStateError:  # the partitions were revoked meanwhile
                return
            except NOT_ALLOWED as error:  # a retry would change nothing
                self._refused = error
                return
            except (errors.KafkaError, TimeoutError) as error:
                log.warning("%s: where to begin is not known yet: %r", self.group or self.topic, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_RETRY_DELAY)
            else:
                return

    async def _seek(self, partitions: list[TopicPartition], generation: int) -> None:
        assert self._consumer is not None  # the consumer has called us
        known = {partition: await self._consumer.committed(partition) for partition in partitions} if self.group else {}
        fresh = [partition for partition in partitions if known.get(partition) is None]
        starts = await self._starts(fresh) if fresh else {}
        self._done |= starts  # committed, so that a restart does not apply `start` again
        await self.commit()
        if generation != self.generation:  # aiokafka may swallow a cancellation
            return
        for partition in partitions:
            self._consumer.seek(partition, starts[partition] if partition in starts else known[partition])
        self._flowing.set()  # without an await after `seek`: else records of other positions could be taken, and lost

    async def _starts(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        consumer, start = self._consumer, self.start
        assert consumer is not None  # as above
        begins: dict[TopicPartition, int] = await consumer.beginning_offsets(partitions)
        if start == "earliest":
            return begins
        ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
        if isinstance(start, datetime):
            times = await consumer.offsets_for_times(dict.fromkeys(partitions, int(start.timestamp() * 1000)))
            return {
                partition: ends[partition] if times.get(partition) is None else times[partition].offset
                for partition in partitions
            }
        if isinstance(start, Mapping):
            given = {partition: start.get(partition.partition, begins[partition]) for partition in partitions}
            return {
                partition: min(max(given[partition], begins[partition]), ends[partition]) for partition in partitions
            }
        return ends


async def _stop(consumer: AIOKafkaConsumer) -> None:
    with suppress(errors.KafkaError, OSError, TimeoutError):
        await stopped(asyncio.ensure_future(consumer.stop()))
