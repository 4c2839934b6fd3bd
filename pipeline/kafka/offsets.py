"""A connected admin client: the cluster, partitions and their offsets, and the offsets of consumer groups.

Functions raise BrokerError, or CallerError if brokers refuse us because of the settings.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import ApiVersionRequest
from aiokafka.protocol.metadata import MetadataRequest

from pipeline.kafka.topic_plan import Partition
from topics.catalog import EVENTS, Topic
from turnmill.addresses import unreachable
from turnmill.ending import stopped
from turnmill.errors import BrokerError
from turnmill.kafka.client import client_options
from turnmill.kafka.client_log import below_warning, client_log
from turnmill.kafka.probe import NO_KAFKA
from turnmill.kafka.refusal import refusal
from turnmill.settings import BrokerSettings

CONNECT_TIMEOUT, CALL_TIMEOUT = 10.0, 30.0  # seconds: until a broker answers, and for the rest of a call
REQUEST_TIMEOUT = 5.0  # seconds for a request
Bounds = dict[TopicPartition, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster behind TURNMILL_BROKERS: its id, its brokers as (id, host:port), the keys of APIs that they offer."""

    cluster_id: str
    brokers: tuple[tuple[int, str], ...]
    offers: frozenset[int] = frozenset()


@asynccontextmanager
async def connected(settings: BrokerSettings) -> AsyncIterator[Any]:
    """Yield a started admin client. Failures within the block become errors with advice."""
    client = AIOKafkaAdminClient(**client_options(settings), request_timeout_ms=int(REQUEST_TIMEOUT * 1000))
    try:
        try:
            with client_log(below_warning):
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await client.start()
        except (errors.KafkaError, OSError, TimeoutError) as error:
            if reason := await refusal(settings):
                raise reason from error
            why = await asyncio.to_thread(unreachable, settings.broker_list[0]) or NO_KAFKA
            raise BrokerError(
                f"no Kafka broker answers at {settings.brokers}: `turnmill up` starts one for development, "
                f"or set TURNMILL_BROKERS to the address of yours ({why})"
            ) from error
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                yield client
        except (errors.KafkaError, OSError, TimeoutError) as error:
            if reason := await refusal(settings):
                raise reason from error
            if isinstance(error, errors.IncompatibleBrokerVersion):  # "CreateTopicsRequest cannot be used if …"
                lacks = f"{settings.brokers} offers no {error.args[0].partition('Request ')[0]}, an API of Kafka"
                raise BrokerError(f"{lacks}: `turnmill doctor` says what to do without") from error
            what = str(error) or f"no answer within {CALL_TIMEOUT:.0f} s"
            raise BrokerError(f"Kafka at {settings.brokers}: {what}; see the broker's log") from error
    finally:
        await stopped(client.close())


async def cluster_info(settings: BrokerSettings) -> ClusterInfo:
    """Return the cluster at TURNMILL_BROKERS."""
    async with connected(settings) as client:
        return await cluster_of(client)


async def cluster_of(client: Any) -> ClusterInfo:
    """Return the cluster of a connected client."""
    described = await client.describe_cluster()
    brokers = sorted((b["node_id"], f"{b['host']}:{b['port']}") for b in described["brokers"])
    # The client has no public call that sends any request.
    offers = (await client._send_request(ApiVersionRequest())).api_versions  # noqa: SLF001  # as above
    return ClusterInfo(described["cluster_id"], tuple(brokers), frozenset(row[0] for row in offers))


async def prefixes(settings: BrokerSettings) -> list[str]:
    """Return the prefixes under which the cluster has a topic of events."""
    behind = f".{EVENTS.name}"
    async with connected(settings) as client:
        return sorted(name.removesuffix(behind) for name in await client.list_topics() if name.endswith(behind))


async def partitions_of(client: Any, names: Iterable[str]) -> dict[str, list[Partition]]:
    """Return the partitions of each topic, in order, without offsets; missing topics are left out."""
    # Not `describe_topics`: brokers with auto.create.topics.enable, which is on as it comes, create what that asks for.
    request = MetadataRequest(list(names), allow_auto_topic_creation=False)
    answer = await client._send_request(request)  # noqa: SLF001  # as in `cluster_of`
    return {
        topic["topic"]: sorted(map(_partition, topic["partitions"]), key=lambda partition: partition.id)
        for topic in answer.to_object()["topics"]
        if topic["error_code"] == 0
    }


def _partition(row: Mapping[str, Any]) -> Partition:
    leader = row["leader"] if row["leader"] >= 0 else None
    return Partition(row["partition"], leader, tuple(row["replicas"]), tuple(row["isr"]))


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group's position in a partition. `committed` is None if it never committed: it has read no record."""

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
        names = [TopicPartition(name, row.id) for name, rows in partitions.items() for row in rows]
        committed = await _committed(client, group)
        offsets = await offsets_of(settings, names)
    return [PartitionLag(p.topic, p.partition, committed.get(p), *offsets[p]) for p in sorted(names)]


async def group_members(settings: BrokerSettings, group: str) -> list[str]:
    """Return the client id of each member that a consumer group has now; none from a broker that does not tell it."""
    async with connected(settings) as client:
        try:
            (described,) = await client.describe_consumer_groups([group])
        except errors.IncompatibleBrokerVersion:
            return []
    # A group: error, id, state, type of protocol, protocol, members; a member: id, client id, …
    return [member[1] for row in described.groups for member in row[5]]


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
            first = await consumer.offsets_for_times(dict.fromkeys(starts, since))
            starts |= {partition: row.offset for partition, row in first.items() if row is not None}
        await consumer.commit(starts)
    except (errors.CommitFailedError, errors.IllegalGenerationError, errors.UnknownMemberIdError):
        return  # another worker has done it at the same moment
    finally:
        await stopped(consumer.stop())


async def bounds(settings: BrokerSettings, topics: Iterable[Topic]) -> Bounds:
    """Return (begin, end) of each partition of these topics; (0, 0) for a partition without a leader.

    A missing topic has no partitions.
    """
    async with connected(settings) as client:
        described = await partitions_of(client, [topic.full_name(settings.topic_prefix) for topic in topics])
        leaders = {TopicPartition(name, row.id): row.leader for name, rows in described.items() for row in rows}
        offsets = await offsets_of(settings, [partition for partition, at in leaders.items() if at is not None])
    return {partition: offsets.get(partition, (0, 0)) for partition in leaders}


async def record_count(settings: BrokerSettings, topic: Topic) -> int:
    """Return the number of offsets in the topic's partitions; 0 if there is no such topic."""
    return sum(end - begin for begin, end in (await bounds(settings, [topic])).values())


async def _committed(client: Any, group: str) -> dict[Any, int]:
    while True:
        try:
            offsets = await client.list_consumer_group_offsets(group)
            return {partition: row.offset for partition, row in offsets.items() if row.offset >= 0}
        except (errors.GroupCoordinatorNotAvailableError, errors.GroupLoadInProgressError):
            # The first group creates the brokers' topic of groups.
            await asyncio.sleep(0.1)


async def offsets_of(
    settings: BrokerSettings, partitions: Sequence[TopicPartition], patience: float = REQUEST_TIMEOUT
) -> Bounds:
    """Return (begin, end) of each partition; each must have a leader, which answers within `patience` seconds."""
    if not partitions:
        return {}
    consumer = AIOKafkaConsumer(**client_options(settings), request_timeout_ms=int(patience * 1000))
    try:
        await consumer.start()
        begin, end = await asyncio.gather(consumer.beginning_offsets(partitions), consumer.end_offsets(partitions))
    finally:
        await stopped(consumer.stop())
    return {partition: (begin[partition], end[partition]) for partition in partitions}
