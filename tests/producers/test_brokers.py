"""Brokers of other makes and settings: what is asked of them, and what works where they lack or delay it."""

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.cli.services.checks import WITHOUT
from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics, check_topics, describe_topics
from pipeline.settings import Settings
from tests.producers import asked
from tests.producers.broker_proxy import NAMES, BrokerProxy, proxied
from tests.support.gateways import client, replayed, running, talk
from tests.support.places import CACHE
from tests.support.topic_records import configure, read_all
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import DEAD_LETTERS, EVENTS, TURNS
from turnmill.errors import BrokerError
from turnmill.kafka import producer
from turnmill.kafka.refusal import NEEDED

OF_AGENTS = {  # what they say
    "Produce": "ProduceRequest cannot be used",
    "Metadata": "offers no Metadata",
    "InitProducerId": "offers no InitProducerId",
}
SLOW = 0.5  # seconds that a produce takes


async def test_a_broker_that_creates_what_it_is_asked_about(tmp_path: Path) -> None:
    """As Apache Kafka comes: `auto.create.topics.enable` is on, and a new topic has a partition."""
    settings = Settings(home=tmp_path, cache=CACHE, brokers=f"127.0.0.1:{free_ports(1)[0]}", partitions=4)
    with local.running(settings, extra={"auto.create.topics.enable": "true"}):
        with pytest.raises(BrokerError, match=r"has no topic turnmill\.events.*`turnmill topics apply` creates"):
            await check_topics(settings)
        with pytest.raises(BrokerError, match=r"has no topic turnmill\.events: `turnmill topics apply` creates"):
            await producer.connected(settings, EVENTS.full_name(settings.topic_prefix))
        assert await describe_topics(settings) == []
        await apply_topics(settings)
        assert {len(topic.partitions) for topic in await describe_topics(settings)} == {4}
        await (await producer.connected(settings, EVENTS.full_name(settings.topic_prefix))).close()


async def test_what_is_asked_for_is_on_the_page() -> None:
    """`python -m tests.producers.asked` writes it."""
    assert asked.PAGE.read_text() == asked.written(await asked.made())


def refuse(proxies: Mapping[str, BrokerProxy], *keys: int) -> None:
    for proxy in proxies.values():
        proxy.refused = frozenset(keys)


async def settings_of(key: int, proxies: Mapping[str, BrokerProxy], folder: Path) -> dict[str, Settings]:
    """-> the settings of all parts, on topics that are there, behind proxies that offer all but `key`."""
    home = folder / NAMES[key]
    home.mkdir()
    found = asked.all_settings(home, proxies)
    named = {who: settings.model_copy(update={"topic_prefix": NAMES[key]}) for who, settings in found.items()}
    refuse(proxies)
    await apply_topics(named["COMMANDS"])
    refuse(proxies, key)
    return named


async def lives(settings: Mapping[str, Settings], runs: int = 1) -> float:
    """Have an agent publish a run, which a gateway shows and a worker stores. -> seconds until it is stored.

    `runs`: with those of the thread that are in the agent's spool.
    """
    one = WorkerProcess(settings["WORKER"], roles="assemble,metrics,store").start()
    try:
        await one.url()
        began = time.monotonic()
        await asked.published(settings["AGENT"])
        async with running(settings["GATEWAY"]) as serving, client(serving.url) as http:
            assert len(await replayed(http, asked.THREAD)) == runs * (len(talk(20)) + 1)  # and their ends
        await wait_until_stored(settings["COMMANDS"], runs, [one])
        took = time.monotonic() - began
        assert await asyncio.to_thread(one.stop) == 0, one.text()  # the proxies are in this loop
        return took
    finally:
        one.end()


async def test_without_an_api_that_only_some_commands_need(tmp_path: Path) -> None:
    async with proxied(tmp_path / "broker", list(asked.WHO)) as (direct, proxies):
        for key, what in WITHOUT.items():
            settings = await settings_of(key, proxies, tmp_path)
            await lives(settings)
            status, said = await asked.command(settings["COMMANDS"], "doctor --ledger --json")
            findings = json.loads(said)
            assert status == 0, said
            assert [row["seen"] for row in findings if "offers no" in row["seen"]] == [f"it offers no {what}"]
            assert [row["level"] for row in findings if row["check"] == "balance"] == ["ok"]
            for command in ("dlq list", "replay", "runs", "topics apply", "topics describe"):
                status, said = await asked.command(settings["COMMANDS"], command)
                assert status == 0, said
            ours = settings["COMMANDS"]
            refused = {
                "CreateTopics": ours.model_copy(update={"topic_prefix": f"{NAMES[key]}-missing"}),
                "AlterConfigs": ours,
                "CreatePartitions": ours.model_copy(update={"partitions": 3}),
            }
            await configure(ours.model_copy(update={"brokers": direct}), TURNS, {"retention.ms": "1000000"})
            status, said = await asked.command(refused.get(NAMES[key], ours), "topics apply --grow")
            if NAMES[key] in refused:
                assert status == 3, said
                assert f"offers no {NAMES[key]}, an API of Kafka: `turnmill doctor` says what to do without" in said
            else:
                assert status == 0, said


async def test_without_an_api_that_all_need(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing starts, each says why, and what an agent says meanwhile is kept."""
    async with proxied(tmp_path / "broker", list(asked.WHO)) as (_, proxies):
        for key, name in NEEDED.items():
            settings = await settings_of(key, proxies, tmp_path)
            status, said = await asked.command(settings["WORKER"], "worker --roles assemble,store")
            assert status == 2, said
            assert f"offers no {name}, APIs of Kafka that Turnmill can't work without" in said
            status, said = await asked.command(settings["COMMANDS"], "doctor")
            assert status == 1, said
            assert f"offers no {name}" in said
            if name not in OF_AGENTS:
                continue
            caplog.clear()
            with caplog.at_level(logging.WARNING, "turnmill"):
                await asked.published(settings["AGENT"])
            assert OF_AGENTS[name] in caplog.text
            refuse(proxies)
            await lives(settings, 2)


async def test_a_produce_that_takes_half_a_second(tmp_path: Path) -> None:
    """As with brokers that keep records in an object store."""
    async with proxied(tmp_path / "broker", list(asked.WHO)) as (_, proxies):
        settings = asked.all_settings(tmp_path, proxies)
        for proxy in proxies.values():
            proxy.delay = SLOW
        await apply_topics(settings["COMMANDS"])
        assert await lives(settings) < 30
        status, said = await asked.command(settings["COMMANDS"], "doctor --ledger")
        assert status == 0, said
        assert await read_all(settings["COMMANDS"], DEAD_LETTERS) == []
