"""The begin and end offsets of partitions, and the committed offsets of consumer groups.

Functions raise BrokerError, or CallerError if brokers refuse us because of the settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    IllegalGenerationError,
    UnknownMemberIdError,
)

from pipeline.kafka.admin_client import REQUEST_TIMEOUT, connected, partitions_of
from topics.catalog import Topic
from turnmill.ending import stopped
from turnmill.kafka.client import client_options
from turnmill.settings import BrokerSettings

Bounds = dict[TopicPartition, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group's position in one partition. `committed` is None if it never committed: it has read no record."""

    topic: str
    partition: int
    committed: int | None
    begin: int
    end: int

    @property
    def lag(self) -> int:
        """The number of records that the group has not read, without those that retention removed."""
        return self.end - max(self.begin, self.committed or 0)


async def group_lag(settings: BrokerSettings, group: str, topics: Iterable[Topic]) -> list[PartitionLag]:
    """Return the position of consumer group `group` in each partition of `topics`, by topic and partition."""
    async with connected(settings) as client:
        partitions = await partitions_of(client, [topic.full_name(settings.topic_prefix) for topic in topics])
        places = [TopicPartition(name, row.id) for name, rows in partitions.items() for row in rows]
        committed = await _committed(client, group)
        offsets = await offsets_of(settings, places)
    return [PartitionLag(p.topic, p.partition, committed.get(p), *offsets[p]) for p in sorted(places)]


async def begin_group(settings: BrokerSettings, group: str, topic: Topic, since: int | None = None) -> None:
    """Make a consumer group that has read nothing begin at the end of a topic, or with the records since a time.

    `since` in epoch ms. Raises KafkaError.

    The position is committed at once, so that a partition that is added later is read from its beginning.
    """
    rows = await group_lag(settings, group, [topic])
    if any(row.committed is not None for row in rows):
        return
    starts = {TopicPartition(row.topic, row.partition): row.end for row in rows}
    consumer = AIOKafkaConsumer(group_id=group, enable_auto_commit=False, **client_options(settings))
    try:
        await consumer.start()
        consumer.assign(list(starts))
        if since is not None:
            found = await consumer.offsets_for_times(dict.fromkeys(starts, since))
            starts |= {place: one.offset for place, one in found.items() if one is not None}
        await consumer.commit(starts)
    except (CommitFailedError, IllegalGenerationError, UnknownMemberIdError):
        return  # another worker has done it at the same moment
    finally:
        await stopped(consumer.stop())


async def bounds(settings: BrokerSettings, topics: Iterable[Topic]) -> Bounds:
    """Return (begin, end) of each partition of these topics; (0, 0) for one without a leader.

    A missing topic has no partitions.
    """
    async with connected(settings) as client:
        found = await partitions_of(client, [topic.full_name(settings.topic_prefix) for topic in topics])
        rows = [(TopicPartition(name, row.id), row.leader) for name, rows in found.items() for row in rows]
        offsets = await offsets_of(settings, [place for place, leader in rows if leader is not None])
    return {place: offsets.get(place, (0, 0)) for place, _ in rows}


async def record_count(settings: BrokerSettings, topic: Topic) -> int:
    """Return the number of offsets in the topic's partitions; 0 if there is no such topic."""
    return sum(end - begin for begin, end in (await bounds(settings, [topic])).values())


async def _committed(client: Any, group: str) -> dict[Any, int]:
    while True:
        try:
            places = await client.list_consumer_group_offsets(group)
            return {place: row.offset for place, row in places.items() if row.offset >= 0}
        except (GroupCoordinatorNotAvailableError, GroupLoadInProgressError):  # the first group creates its topic
            await asyncio.sleep(0.1)


async def offsets_of(settings: BrokerSettings, places: Sequence[TopicPartition]) -> Bounds:
    """Return (begin, end) of each partition; each must have a leader."""
    if not places:
        return {}
    consumer = AIOKafkaConsumer(**client_options(settings), request_timeout_ms=int(REQUEST_TIMEOUT * 1000))
    try:
        await consumer.start()
        begin, end = await asyncio.gather(consumer.beginning_offsets(places), consumer.end_offsets(places))
    finally:
        await stopped(consumer.stop())
    return {place: (begin[place], end[place]) for place in places}
