"""Read a whole topic once, from its beginning to where it ends now: for people's questions, not for the pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from pipeline.errors import BrokerError
from pipeline.kafka.admin import describe_topics
from pipeline.settings import Settings
from threadmill.kafka.client import client_options
from threadmill.kafka.refusal import refusal
from topics.catalog import Topic

ANSWER_WITHIN = 15.0  # seconds that the broker may be silent


async def records_of(settings: Settings, topic: Topic) -> AsyncIterator[Any]:
    """Aiokafka's records, each partition in order, one batch in memory at a time. Raises BrokerError.

    Without a group, so nobody's offsets change.
    """
    ends = await bounds(settings, topic.full_name(settings.topic_prefix))
    if not ends:
        return
    consumer = AIOKafkaConsumer(**client_options(settings), enable_auto_commit=False)
    async with answering(settings):
        try:
            await consumer.start()
            consumer.assign(list(ends))
            for place, (begin, _) in ends.items():
                consumer.seek(place, begin)
            unread = {place: end for place, (_, end) in ends.items()}
            while unread:
                batch = await asyncio.wait_for(consumer.getmany(*unread, timeout_ms=500), ANSWER_WITHIN)
                for place, records in batch.items():
                    for record in records:
                        if record.offset < unread[place]:
                            yield record
                for place in list(unread):
                    if await consumer.position(place) >= unread[place]:
                        del unread[place]
        finally:
            await consumer.stop()


@asynccontextmanager
async def answering(settings: Settings) -> AsyncIterator[None]:
    """A client's errors within the block are BrokerErrors, or CallerErrors where the settings are why."""
    try:
        yield
    except (KafkaError, TimeoutError) as error:
        if reason := await refusal(settings):
            raise reason from error
        what = str(error) or f"no answer for {ANSWER_WITHIN:.0f} s"
        raise BrokerError(f"Kafka at {settings.brokers}: {what}; `threadmill doctor` says what is wrong") from error


async def bounds(settings: Settings, name: str) -> dict[Any, tuple[int, int]]:
    """Partition of that topic -> (begin, end), of each that holds anything. Raises BrokerError."""
    found = next((topic for topic in await describe_topics(settings) if topic.name == name), None)
    if found is None:
        raise BrokerError(f"{settings.brokers} has no topic {name}: `threadmill topics apply` creates it")
    rows = ((TopicPartition(name, row.id), row.begin or 0, row.end or 0) for row in found.partitions)
    return {place: (begin, end) for place, begin, end in rows if end > begin}
