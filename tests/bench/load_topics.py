"""The topics of one load on a broker: filled once, and reset between two measurements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.structs import TopicPartition

from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from pipeline.stores.database.errors import StoreError
from pipeline.worker.host.roles import ROLES
from tests.bench.loads import Load
from tests.bench.postgres import database
from topics import catalog
from topics.catalog import Topic
from turnmill.clock import now_ms
from turnmill.errors import BrokerError
from turnmill.kafka.client import client_options

BATCH_BYTES = 65_536  # of the load's record batches
UNCONFIRMED = 32  # batches
POLL = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class Site:
    """A load and its topics, which `settings` name. `server`: the URL of a Postgres server, where there is one."""

    settings: Settings
    load: Load
    server: str | None = None

    def topic(self, topic: Topic) -> str:
        """The topic's full name at this site."""
        return topic.full_name(self.settings.topic_prefix)

    def places(self, name: str) -> list[TopicPartition]:
        """Every partition of a topic."""
        return [TopicPartition(name, number) for number in range(self.settings.partitions)]

    async def fill(self) -> float:
        """Create the topics and publish the load. -> seconds."""
        await apply_topics(self.settings)
        began = time.monotonic()
        producer = AIOKafkaProducer(
            **client_options(self.settings),
            acks="all",
            max_batch_size=BATCH_BYTES,
            compression_type=None if self.settings.compression == "none" else self.settings.compression,
        )
        await producer.start()
        try:
            await self._publish(producer, self.load.records())
        finally:
            await producer.stop()
        return time.monotonic() - began

    async def _publish(self, producer: AIOKafkaProducer, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Send whole batches: single records would take longer than the measurements."""
        topic = self.topic(catalog.EVENTS)
        numbers = list(range(self.settings.partitions))
        partition_of, places = DefaultPartitioner(), dict[bytes, int]()
        batches = [producer.create_batch() for _ in numbers]
        sent: list[Any] = []
        now = now_ms()
        for key, value in records:
            number = places.get(key)
            if number is None:
                number = places[key] = partition_of(key, numbers, numbers)
            if batches[number].append(key=key, value=value, timestamp=now) is None:
                sent.append(await producer.send_batch(batches[number], topic, partition=number))
                batches[number] = producer.create_batch()
                batches[number].append(key=key, value=value, timestamp=now)
                now = now_ms()
                if len(sent) >= UNCONFIRMED:
                    await asyncio.gather(*sent)
                    sent.clear()
        sent += [
            await producer.send_batch(batches[n], topic, partition=n) for n in numbers if batches[n].record_count()
        ]
        await asyncio.gather(*sent)

    @asynccontextmanager
    async def observed(self) -> AsyncIterator[Observer]:
        """-> an Observer with an admin client and a consumer of its own."""
        admin = AIOKafkaAdminClient(**client_options(self.settings))
        consumer = AIOKafkaConsumer(**client_options(self.settings))
        await admin.start()
        await consumer.start()
        try:
            yield Observer(self, admin, consumer)
        finally:
            await consumer.stop()
            await admin.close()

    async def create(self, name: str) -> None:
        """Create a topic outside the catalog, unless it exists."""
        async with self.observed() as observer:
            if name not in await observer.admin.list_topics():
                await observer.admin.create_topics([NewTopic(name, self.settings.partitions, 1)])

    async def reset(self) -> None:
        """Delete all records but the load's, and set the groups back to their beginning."""
        async with self.observed() as observer:
            for topic in (catalog.TURNS, catalog.TELEMETRY, catalog.STATE, catalog.DEAD_LETTERS):
                ends = await observer.ends(topic)
                written = {place: RecordsToDelete(before_offset=end) for place, end in ends.items() if end}
                if written:
                    await observer.admin.delete_records(written)
            turns = await observer.ends(catalog.TURNS)
        await self._rewind(ROLES["assemble"].group(self.settings), catalog.EVENTS, dict[TopicPartition, int]())
        await self._rewind(ROLES["store"].group(self.settings), catalog.TURNS, turns)

    async def _rewind(self, group: str, topic: Topic, offsets: Mapping[TopicPartition, int]) -> None:
        consumer = AIOKafkaConsumer(**client_options(self.settings), group_id=group, enable_auto_commit=False)
        await consumer.start()
        try:
            places = self.places(self.topic(topic))
            consumer.assign(places)
            await consumer.commit({place: offsets.get(place, 0) for place in places})
        finally:
            await consumer.stop()

    def postgres(self) -> AbstractAsyncContextManager[str]:
        """-> the URL of a new database. Raises StoreError without a server."""
        if self.server is None:
            raise StoreError("there is no Postgres to measure with; see --postgres")
        return database(self.server)


@dataclass(frozen=True, slots=True)
class Observer:
    """Offsets of a site's topics and groups."""

    site: Site
    admin: Any
    consumer: Any

    async def ends(self, topic: Topic) -> dict[TopicPartition, int]:
        """Partition -> the offset behind its last record."""
        ends: dict[TopicPartition, int] = await self.consumer.end_offsets(self.site.places(self.site.topic(topic)))
        return ends

    async def records(self, topic: Topic) -> int:
        """The number of records ever written."""
        return sum((await self.ends(topic)).values())

    async def kept(self, topic: Topic) -> int:
        """The number of records written since the last reset."""
        begins = await self.consumer.beginning_offsets(self.site.places(self.site.topic(topic)))
        return await self.records(topic) - int(sum(begins.values()))

    async def committed(self, group: str, topic: Topic) -> int:
        """The sum of a group's committed offsets."""
        name = self.site.topic(topic)
        offsets = await self.admin.list_consumer_group_offsets(group)
        return sum(row.offset for place, row in offsets.items() if place.topic == name)


async def until(reached: Any, within: float, what: str) -> float:
    """Wait for an async condition. -> time.monotonic() when it held. Raises BrokerError after `within` seconds."""
    deadline = time.monotonic() + within
    while not await reached():
        if time.monotonic() > deadline:
            raise BrokerError(f"the benchmark waited {within:.0f} s in vain until {what}")
        await asyncio.sleep(POLL)
    return time.monotonic()
