"""Topics and groups on a real broker."""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from pipeline.devbroker.local import Cluster
from pipeline.devbroker.ports import free_ports
from pipeline.kafka import admin, offsets
from pipeline.settings import Settings
from tests.support.topic_records import configure
from tests.support.waiting import until
from topics.catalog import CATALOG, EVENTS, STATE
from turnmill.errors import BrokerError


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With as many partitions as topics usually have, for which no topics are ready."""
    return settings.model_copy(
        update={"partitions": Settings().partitions, "topic_prefix": f"{settings.topic_prefix}.many"}
    )


async def test_apply_creates_the_catalog_and_then_changes_nothing(settings: Settings) -> None:
    first = await admin.apply_topics(settings)
    assert [(c.action, c.topic) for c in first] == [("create", t.full_name(settings.topic_prefix)) for t in CATALOG]
    assert await admin.apply_topics(settings) == []
    await admin.check_topics(settings)

    described = await admin.describe_topics(settings)
    assert [t.name for t in described] == [t.full_name(settings.topic_prefix) for t in CATALOG]
    assert {len(t.partitions) for t in described} == {12}
    assert {t.replication for t in described} == {1}  # one broker
    for topic, found in zip(CATALOG, described, strict=True):
        assert topic.config().items() <= found.config.items()


async def test_missing_topics_are_named(settings: Settings) -> None:
    with pytest.raises(BrokerError, match=r"topics apply") as error:
        await admin.check_topics(settings)
    assert EVENTS.full_name(settings.topic_prefix) in str(error.value)
    assert await admin.describe_topics(settings) == []


async def test_configuration_is_brought_in_line_and_that_of_others_stays(applied_settings: Settings) -> None:
    name = STATE.full_name(applied_settings.topic_prefix)
    await configure(applied_settings, STATE, {**STATE.config(), "retention.ms": "1000", "segment.bytes": "2000000"})
    await until(lambda: admin.topic_changes(applied_settings))

    assert [(c.topic, c.action, c.detail) for c in await admin.apply_topics(applied_settings)] == [
        (name, "configure", f"retention.ms: 1000 -> {STATE.retention_ms}")
    ]
    found = next(t for t in await admin.describe_topics(applied_settings) if t.name == name)
    assert found.set_here["retention.ms"] == str(STATE.retention_ms)
    assert found.set_here["segment.bytes"] == "2000000"
    assert await admin.topic_changes(applied_settings) == []


async def test_retention_is_what_the_settings_say(settings: Settings) -> None:
    shorter = settings.model_copy(update={"retention": "events=3600"})
    name = EVENTS.full_name(settings.topic_prefix)
    await admin.apply_topics(shorter)
    found = {topic.name: topic.set_here["retention.ms"] for topic in await admin.describe_topics(shorter)}
    assert found == {t.full_name(settings.topic_prefix): str(t.retention_ms) for t in CATALOG} | {name: "3600000"}
    assert await admin.apply_topics(shorter) == []
    assert [(c.topic, c.detail) for c in await admin.apply_topics(settings)] == [
        (name, f"retention.ms: 3600000 -> {EVENTS.retention_ms}")
    ]


async def test_partitions_grow_only_when_asked(applied_settings: Settings) -> None:
    more = applied_settings.model_copy(update={"partitions": 16})
    assert {c.action for c in await admin.apply_topics(more)} == {"left"}
    assert {len(t.partitions) for t in await admin.describe_topics(more)} == {12}

    assert {c.action for c in await admin.apply_topics(more, grow=True)} == {"grow"}
    assert {len(t.partitions) for t in await admin.describe_topics(more)} == {16}
    assert await admin.apply_topics(more, grow=True) == []

    left = await admin.apply_topics(applied_settings, grow=True)
    assert {c.action for c in left} == {"left"}
    assert "can't remove" in left[0].detail


async def test_topics_of_different_sizes_are_refused(settings: Settings) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=settings.brokers)
    await client.start()
    await client.create_topics([NewTopic(EVENTS.full_name(settings.topic_prefix), 3, 1)])
    await client.close()
    await admin.apply_topics(settings)
    with pytest.raises(BrokerError, match="TURNMILL_PARTITIONS=12"):
        await admin.check_topics(settings)


async def test_more_replicas_than_brokers_is_an_error_that_says_so(settings: Settings) -> None:
    with pytest.raises(BrokerError, match="InvalidReplicationFactor"):
        await admin.apply_topics(settings.model_copy(update={"replication": 2}))


async def test_offsets_and_lag(applied_settings: Settings) -> None:
    name = EVENTS.full_name(applied_settings.topic_prefix)
    group = f"{applied_settings.topic_prefix}.readers"
    async with AIOKafkaProducer(bootstrap_servers=applied_settings.brokers) as producer:
        for n in range(5):
            await producer.send_and_wait(name, b"%d" % n, partition=3)

    events = next(t for t in await admin.describe_topics(applied_settings) if t.name == name)
    assert [(p.begin, p.end) for p in events.partitions] == [(0, 5) if p.id == 3 else (0, 0) for p in events.partitions]
    assert all(p.leader == 1 and p.in_sync == (1,) for p in events.partitions)

    never = await offsets.group_lag(applied_settings, group, [EVENTS])
    assert [p.lag for p in never] == [0, 0, 0, 5, *[0] * 8]
    assert {p.committed for p in never} == {None}

    consumer = AIOKafkaConsumer(bootstrap_servers=applied_settings.brokers, group_id=group, enable_auto_commit=False)
    consumer.assign([TopicPartition(name, 3)])
    await consumer.start()
    await consumer.commit({TopicPartition(name, 3): 2})
    await consumer.stop()
    third = (await offsets.group_lag(applied_settings, group, [EVENTS]))[3]
    assert (third.committed, third.end, third.lag) == (2, 5, 3)


async def test_cluster_info(broker: Cluster, settings: Settings) -> None:
    info = await offsets.cluster_info(settings)
    assert (info.cluster_id, info.brokers) == (broker.cluster_id, ((1, broker.bootstrap),))


async def test_an_unreachable_broker_is_named(tmp_path) -> None:
    nobody = Settings(home=tmp_path, brokers=f"127.0.0.1:{free_ports(1)[0]}")
    for call in (admin.apply_topics, admin.describe_topics, admin.check_topics, offsets.cluster_info):
        with pytest.raises(BrokerError, match=f"{nobody.brokers}.*turnmill up"):
            await call(nobody)
