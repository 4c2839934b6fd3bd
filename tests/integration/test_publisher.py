"""Publishing to a real broker: what arrives, where, and what is said when nothing can."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.partitioner import murmur2

from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.support.places import CACHE
from topics.agent_event import explain
from topics.catalog import EVENTS
from turnmill.errors import BrokerError, CallerError, InvalidRecord
from turnmill.identity import thread_uuid
from turnmill.kafka import producer
from turnmill.limits import RECORD_BYTES
from turnmill.publish.delivery import UNCONFIRMED_BYTES
from turnmill.publish.publisher import LINGER, Publisher
from turnmill.wire.envelope import decode

THREAD = "5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01"
RUN = {"thread_id": THREAD, "agent_id": "weather", "dialect": "vercel-ai"}


def delta(n: int) -> dict[str, object]:
    return {"type": "text-delta", "id": "t", "delta": f"word {n} "}


async def published(settings: Settings) -> list[tuple[int, bytes, dict]]:
    """Everything on the events topic: (partition, key, envelope), each partition in order."""
    topic = EVENTS.full_name(settings.topic_prefix)
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.brokers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        places = [TopicPartition(topic, p) for p in range(settings.partitions)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found = []
        while len(found) < sum(ends.values()):
            for rows in (await consumer.getmany(timeout_ms=500)).values():
                for row in rows:
                    assert explain(row.value) == []
                    found.append((row.partition, row.key, decode(row.value)))
        return found
    finally:
        await consumer.stop()


async def ends_of(settings: Settings) -> dict[str, str | None]:
    records = await published(settings)
    return {r["run_id"]: r.get("end") for _, _, r in records}


async def test_events_arrive_numbered_dated_and_once(applied_settings: Settings) -> None:
    before = time.time_ns() // 1_000_000
    async with Publisher(applied_settings) as publisher:
        async with publisher.run(**RUN, run_id="r1", tenant="acme", info={"model_name": "m"}) as run:
            for n in range(100):
                await run.send(delta(n))
                if n % 40 == 0:
                    await asyncio.sleep(1.5 * LINGER)  # the linger is over: what waited has gone
        counts = publisher.counts
    records = [r for _, _, r in await published(applied_settings)]

    assert [e for r in records for e in r["events"]] == [delta(n) for n in range(100)]
    assert [r["seq"] for r in records] == [sum(len(r["events"]) for r in records[:i]) for i in range(len(records))]
    assert 3 < len(records) <= 100
    assert all(before <= r["ts"] <= time.time_ns() // 1_000_000 for r in records)
    assert {(r["thread_id"], r["run_id"], r["tenant"]) for r in records} == {(THREAD, "r1", "acme")}
    assert [r.get("run") for r in records] == [{"model_name": "m"}] + [None] * (len(records) - 1)
    assert [r.get("end") for r in records] == [None] * (len(records) - 1) + ["complete"]
    assert (counts.runs, counts.events, counts.records, counts.confirmed) == (1, 100, len(records), len(records))
    assert counts.bytes == sum(len(orjson.dumps(r)) for r in records)


async def test_a_thread_is_on_the_partition_that_every_kafka_client_gives_its_id(applied_settings: Settings) -> None:
    threads = [f"conversation {n}" for n in range(30)]
    async with Publisher(applied_settings) as publisher:
        for thread in threads:
            async with publisher.run(**RUN | {"thread_id": thread}) as run:
                await run.send(delta(0))
    found = await published(applied_settings)
    assert len({partition for partition, _, _ in found}) == applied_settings.partitions
    for partition, key, record in found:
        assert key.decode() == record["thread_id"]
        assert partition == (murmur2(key) & 0x7FFFFFFF) % applied_settings.partitions
    assert {r["run"]["external_id"]: r["thread_id"] for _, _, r in found} == {t: thread_uuid(t)[0] for t in threads}


async def test_how_a_context_is_left_is_how_its_run_ended(applied_settings: Settings) -> None:
    async with Publisher(applied_settings) as publisher:

        async def left(run_id: str, error: BaseException) -> None:
            async with publisher.run(**RUN, run_id=run_id) as run:
                await run.send(delta(0))
                raise error

        for run_id, error in (("error", RuntimeError("boom")), ("cancelled", asyncio.CancelledError())):
            with pytest.raises(type(error)):
                await left(run_id, error)
        async with publisher.run(**RUN, run_id="said") as run:
            await run.end("disconnected")
            with pytest.raises(CallerError, match="is over"):
                await run.send(delta(0))

        async def generator() -> AsyncIterator[int]:
            async with publisher.run(**RUN, run_id="closed") as run:
                await run.send(delta(0))
                yield 1

        stream = generator()
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
    assert await ends_of(applied_settings) == {
        "error": "error",
        "cancelled": "aborted",
        "said": "disconnected",
        "closed": "aborted",
    }


async def test_tee_passes_a_stream_on_unchanged_and_knows_how_it_ended(applied_settings: Settings) -> None:
    events = [delta(n) for n in range(20)]
    huge = {"type": "text-delta", "id": "t", "delta": "x" * RECORD_BYTES}

    async def stream(items: list[dict], error: Exception | None = None) -> AsyncIterator[dict]:
        for item in items:
            yield item
        if error:
            raise error

    async with Publisher(applied_settings) as publisher:
        async with publisher.run(**RUN, run_id="whole") as run:
            seen = [event async for event in run.tee(stream([*events[:10], huge, *events[10:]]))]
        assert all(a is b for a, b in zip(seen, [*events[:10], huge, *events[10:]], strict=True))

        async with publisher.run(**RUN, run_id="left early") as run:
            async for event in run.tee(stream(events)):
                if event is events[4]:
                    break

        async def fail() -> None:
            async with publisher.run(**RUN, run_id="failed") as run:
                async for _ in run.tee(stream(events, ValueError("model"))):
                    pass

        with pytest.raises(ValueError, match="model"):
            await fail()
    records = [r for _, _, r in await published(applied_settings)]
    whole = [e for r in records if r["run_id"] == "whole" for e in r["events"]]
    assert whole == events
    assert await ends_of(applied_settings) == {"whole": "complete", "left early": "aborted", "failed": "error"}


async def test_an_event_that_can_not_travel_is_an_error_and_the_run_goes_on(applied_settings: Settings) -> None:
    async with Publisher(applied_settings) as publisher, publisher.run(**RUN) as run:
        await run.send(delta(0))
        with pytest.raises(InvalidRecord, match=r"event 1 \(text-delta\) has 900,0.. bytes"):
            await run.send({"type": "text-delta", "id": "t", "delta": "x" * RECORD_BYTES})
        await run.send(delta(1))
        await run.send({"type": "text-delta", "id": "t", "delta": "x" * (RECORD_BYTES - 450)})
    records = [r for _, _, r in await published(applied_settings)]
    assert [len(e["delta"]) for r in records for e in r["events"]] == [7, 7, RECORD_BYTES - 450]
    assert [r["seq"] for r in records] == [0, 2]


async def test_what_is_unconfirmed_is_bounded(applied_settings: Settings) -> None:
    large = {"type": "data-x", "data": "x" * 700_000}
    async with Publisher(applied_settings.model_copy(update={"compression": "none"}), spool=False) as publisher:
        most = 0
        async with publisher.run(**RUN) as run:
            for _ in range(100):
                await run.send(large)
                most = max(most, publisher.delivery._transit.bytes)
        await publisher.flush()
        assert publisher.delivery._transit.bytes == 0
    assert UNCONFIRMED_BYTES / 2 < most <= UNCONFIRMED_BYTES + RECORD_BYTES


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"thread_id": ""}, "thread_id must be a string that is not empty"),
        ({"agent_id": None}, "agent_id must be a string"),
        ({"dialect": "vercel"}, "choose one of .*vercel-ai"),
        ({"info": {"agent_name": 7}}, "info.*a text is expected"),
    ],
)
async def test_arguments_that_can_not_be_right_are_refused(tmp_path, arguments, problem) -> None:
    publisher = Publisher(Settings(home=tmp_path))
    with pytest.raises(CallerError, match=problem):
        publisher.run(**RUN | arguments)


async def test_nobody_at_the_address(tmp_path) -> None:
    settings = Settings(home=tmp_path, brokers=f"127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(BrokerError, match=f"no Kafka broker answers at {settings.brokers}.*turnmill up"):
        async with Publisher(settings, spool=False):
            pass


async def test_somebody_else_at_the_address(tmp_path) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    address = "{}:{}".format(*server.sockets[0].getsockname())
    async with server, asyncio.timeout(30):  # about 10 s, not the minutes of a client's own patience
        with pytest.raises(BrokerError, match=f"no Kafka broker answers at {address}"):
            async with Publisher(Settings(home=tmp_path, brokers=address), spool=False):
                pass


async def test_a_missing_topic_is_named(settings: Settings) -> None:
    with pytest.raises(BrokerError, match=rf"has no topic {settings.topic_prefix}\.events: `turnmill topics apply`"):
        async with Publisher(settings, spool=False):
            pass


async def test_a_broker_that_does_not_say_what_topics_it_has_is_told_from_one_without(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unanswered(client: AIOKafkaClient) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(AIOKafkaClient, "force_metadata_update", unanswered)
    monkeypatch.setattr(producer, "CONNECT_TIMEOUT", 2.0)
    with pytest.raises(BrokerError, match="has not said within 2 s whether it has a topic"):
        async with Publisher(settings, spool=False):
            pass


async def test_a_broker_that_goes_away_is_waited_for_and_then_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path, cache=CACHE, brokers=f"127.0.0.1:{free_ports(1)[0]}", partitions=3)
    with local.running(settings) as cluster:
        await apply_topics(settings)

        async def lose_the_broker_for_good() -> None:
            async with Publisher(settings, spool=False) as publisher, publisher.run(**RUN) as run:
                await run.send(delta(0))
                await publisher.flush()

                await asyncio.to_thread(cluster.kill, 0)
                for n in range(1, 50):
                    await run.send(delta(n))
                await asyncio.to_thread(cluster.restart, 0)
                await publisher.flush()
                found = [e for _, _, r in await published(settings) for e in r["events"]]
                assert found == [delta(n) for n in range(50)]

                await asyncio.to_thread(cluster.kill, 0)
                await run.send(delta(50))
                monkeypatch.setattr("turnmill.publish.publisher.FLUSH_TIMEOUT", 1.0)

        with pytest.raises(BrokerError, match=f"{settings.brokers} has not confirmed 1 record, which"):
            await lose_the_broker_for_good()
