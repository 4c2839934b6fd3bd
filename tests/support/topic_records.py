"""What topics hold, by a plain client: records put there and read; and how a topic and a group are set."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import TopicPartition

from pipeline.settings import Settings
from pipeline.worker.host.roles import ROLES
from topics.catalog import Topic
from turnmill.kafka.client import client_options


async def publish(
    settings: Settings, topic: Topic, records: Iterable[tuple[bytes, bytes | None]], pause: float = 0.0, **more: Any
) -> int:
    """Produce (key, value) pairs in order; `pause` seconds after every 200. `more`: aiokafka's options."""
    options = {"acks": "all", "enable_idempotence": True, "linger_ms": 5, "max_request_size": 5_000_000, **more}
    producer = AIOKafkaProducer(bootstrap_servers=settings.broker_list, **options)
    await producer.start()
    count = 0
    try:
        for key, value in records:
            await producer.send(topic.full_name(settings.topic_prefix), value, key=key)
            count += 1
            if count % 200 == 0:
                await asyncio.sleep(pause)
    finally:
        await producer.stop()
    return count


@asynccontextmanager
async def writing(settings: Settings, topic: Topic) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """-> a function that writes a record (key, value) to a partition, as a producer with any partitioner may."""
    producer = AIOKafkaProducer(**client_options(settings))
    await producer.start()

    async def write(key: bytes | None, value: bytes, partition: int) -> None:
        await producer.send_and_wait(topic.full_name(settings.topic_prefix), value, key=key, partition=partition)

    try:
        yield write
    finally:
        await producer.stop()


async def read_all(settings: Settings, topic: Topic) -> list[Any]:
    """Every record of a topic, partition by partition."""
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.broker_list, auto_offset_reset="earliest")
    await consumer.start()
    try:
        name = topic.full_name(settings.topic_prefix)
        consumer.assign([TopicPartition(name, number) for number in range(settings.partitions)])
        ends = await consumer.end_offsets(consumer.assignment())
        found: list[object] = []
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += records
        return found
    finally:
        await consumer.stop()


async def configure(settings: Settings, topic: Topic, config: Mapping[str, str]) -> None:
    """Replace the configuration of a topic, as somebody else may do it."""
    client = AIOKafkaAdminClient(**client_options(settings))
    await client.start()
    try:
        name = topic.full_name(settings.topic_prefix)
        await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, dict(config))])
    finally:
        await client.close()


async def set_back(settings: Settings, role: str, topic: Topic) -> None:
    """The role's offsets to the beginning of its topic, as `kafka-consumer-groups.sh --reset-offsets --to-earliest`."""
    group = ROLES[role].group(settings)
    consumer = AIOKafkaConsumer(**client_options(settings), group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        places = [TopicPartition(topic.full_name(settings.topic_prefix), n) for n in range(settings.partitions)]
        consumer.assign(places)
        await consumer.commit(dict(await consumer.beginning_offsets(places)))
    finally:
        await consumer.stop()
