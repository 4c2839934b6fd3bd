"""Compare the broker's topics with the catalog and bring them in line, through aiokafka's admin client.

Functions raise BrokerError, or CallerError if brokers refuse us because of the settings.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import IncompatibleBrokerVersion, TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from pipeline.kafka.offsets import CALL_TIMEOUT, cluster_of, connected, offsets_of, partitions_of
from pipeline.kafka.topic_plan import Change, Found, Wanted, plan, wanted
from pipeline.settings import Settings
from topics.catalog import CATALOG
from turnmill.errors import BrokerError
from turnmill.kafka.refusal import refusal

TOPIC_CONFIG = 1  # the source, in DescribeConfigs, of a value that was set for the topic itself


async def topic_changes(settings: Settings, *, grow: bool = False) -> list[Change]:
    """Return the changes that `apply_topics` would make."""
    async with connected(settings) as client:
        wants = await _wants(client, settings)
        return plan(wants, await _described(client, [want.name for want in wants]), grow=grow)


async def apply_topics(settings: Settings, *, grow: bool = False) -> list[Change]:
    """Create missing topics, bring configurations in line, add partitions if `grow`; never delete.

    Return the changes made and the differences that remain; empty if all topics match the catalog. When it returns, the
    brokers know the changes, and each partition's leader answers: before that, a producer's first record would fail.
    """
    async with connected(settings) as client:
        wants = await _wants(client, settings)
        by_name = {want.name: want for want in wants}
        while True:
            topics = await _described(client, by_name)
            changes = plan(wants, topics, grow=grow)
            if await _create(client, [by_name[c.topic] for c in changes if c.action == "create"]):
                break
            await asyncio.sleep(0.1)  # another process has just created one: compare again
        for change in changes:
            want = by_name[change.topic]
            if change.action == "configure":
                await _configure(client, want, topics[want.name])
            elif change.action == "grow":
                await client.create_partitions({want.name: NewPartitions(want.partitions)})
        if any(change.action != "left" for change in changes):
            partitions = await _settled(client, wants, grow)
            # A broker answers for a partition only once it leads it: on a busy disk, seconds after it is named leader.
            await offsets_of(settings, partitions, CALL_TIMEOUT)
        return changes


class MissingTopics(BrokerError):
    """The broker answers, and lacks topics."""


async def check_topics(settings: Settings) -> None:
    """Raise MissingTopics, or BrokerError if an API is missing, or topics keyed by thread differ in partitions."""
    if reason := await refusal(settings):
        raise reason
    async with connected(settings) as client:
        names = [topic.full_name(settings.topic_prefix) for topic in CATALOG]
        counts = {name: len(rows) for name, rows in (await partitions_of(client, names)).items()}
    if missing := [name for name in names if name not in counts]:
        listed = ", ".join(missing)
        raise MissingTopics(
            f"{settings.brokers} has no topic {listed}: `turnmill topics apply` creates them, if "
            f"TURNMILL_TOPIC_PREFIX={settings.topic_prefix} is right"
        )
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise BrokerError(
            f"the topics have different numbers of partitions ({listed}), so that a thread is not on the same one "
            f"in all: set TURNMILL_PARTITIONS={max(counts.values())} and run `turnmill topics apply --grow`"
        )


async def describe_topics(settings: Settings) -> list[Found]:
    """Return the catalog's topics that exist, in its order, with offsets."""
    async with connected(settings) as client:
        names = [topic.full_name(settings.topic_prefix) for topic in CATALOG]
        topics = await _described(client, names)
        led = [TopicPartition(t.name, p.id) for t in topics.values() for p in t.partitions if p.leader is not None]
        offsets = await offsets_of(settings, led)
    return [_with_offsets(topics[name], offsets) for name in names if name in topics]


async def _wants(client: Any, settings: Settings) -> list[Wanted]:
    brokers = len((await cluster_of(client)).brokers)
    prefix, partitions, replication = settings.topic_prefix, settings.partitions, settings.replication
    return wanted(CATALOG, prefix, partitions, replication, brokers, settings.retention_ms)


async def _described(client: Any, names: Iterable[str]) -> dict[str, Found]:
    partitions = await partitions_of(client, names)
    if not partitions:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in partitions]
    topics = {}
    try:
        responses = await client.describe_configs(resources)
    except IncompatibleBrokerVersion:
        return {name: Found(name, tuple(rows), {}, {}) for name, rows in partitions.items()}
    for response in responses:
        for code, message, _, name, entries in response.resources:
            if code == UnknownTopicOrPartitionError.errno:  # a new topic, which this broker does not know yet
                continue
            _check(code, f"configuration of {name}: {message}")
            # An entry: name, value, read-only, source, sensitive, synonyms.
            config = {entry[0]: entry[1] for entry in entries}
            set_here = {entry[0]: entry[1] for entry in entries if entry[3] == TOPIC_CONFIG}
            topics[name] = Found(name, tuple(partitions[name]), config, set_here)
    return topics


async def _create(client: Any, wants: Sequence[Wanted]) -> bool:
    """Create topics; return False if one exists already."""
    if not wants:
        return True
    new = [NewTopic(w.name, w.partitions, w.replication, topic_configs=dict(w.config)) for w in wants]
    answers = (await client.create_topics(new)).topic_errors
    for name, code, message in answers:
        if code != TopicAlreadyExistsError.errno:
            _check(code, f"can't create {name}: {message}")
    return all(code == 0 for _, code, _ in answers)


async def _configure(client: Any, want: Wanted, topic: Found) -> None:
    # This request replaces the topic's whole configuration, so values set by others are included.
    values = {**topic.set_here, **want.config}
    for response in await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, want.name, values)]):
        for code, message, *_ in response.resources:
            _check(code, f"can't configure {want.name}: {message}")


async def _settled(client: Any, wants: Sequence[Wanted], grow: bool) -> list[TopicPartition]:  # noqa: FBT001
    """Wait until the brokers know of all changes, which the controller confirms a moment earlier -> all partitions."""
    while True:
        topics = await _described(client, [want.name for want in wants])
        led = all(row.leader is not None for topic in topics.values() for row in topic.partitions)
        if led and all(change.action == "left" for change in plan(wants, topics, grow=grow)):
            return [TopicPartition(topic.name, row.id) for topic in topics.values() for row in topic.partitions]
        await asyncio.sleep(0.05)


def _with_offsets(topic: Found, offsets: Mapping[Any, tuple[int, int]]) -> Found:
    rows = ((row, offsets.get(TopicPartition(topic.name, row.id), (None, None))) for row in topic.partitions)
    return replace(topic, partitions=tuple(replace(row, begin=begin, end=end) for row, (begin, end) in rows))


def _check(code: int, what: str) -> None:
    if code:
        raise BrokerError(f"{what} ({for_code(code).__name__})")
