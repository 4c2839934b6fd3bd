"""A login that may not read the topic of commands publishes as before, with one line in the log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest

from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.support.places import CACHE
from tests.support.topic_records import read_all
from tests.support.waiting import until
from topics.catalog import CONTROL, EVENTS
from turnmill import Publisher

TOPIC, LITERAL, READ, DENY = 2, 3, 3, 2  # as Kafka numbers them
GUARDED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


async def deny(settings: Settings, topic: str) -> None:
    """Let nobody read a topic any more."""
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.broker_list)
    await admin.start()
    try:
        answer = await admin._send_request(CreateAclsRequest(TOPIC, topic, LITERAL, "User:*", "*", READ, DENY))
        assert [code for code, _ in answer.creation_responses] == [0], answer
    finally:
        await admin.close()


async def test_it_publishes_and_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(home=tmp_path, cache=CACHE, brokers=f"127.0.0.1:{free_ports(1)[0]}", partitions=1)
    with local.running(settings, extra=GUARDED):
        await apply_topics(settings)
        await deny(settings, CONTROL.full_name(settings.topic_prefix))
        with caplog.at_level(logging.WARNING):
            async with Publisher(settings) as publisher:
                for number in range(2):
                    run = publisher.run(thread_id="t", agent_id="a", dialect="vercel-ai", run_id=f"r{number}")
                    async with run:
                        await run.send({"type": "start"})

                        async def refused() -> bool:
                            return any("hear nothing from elsewhere" in line for line in caplog.messages)

                        await until(refused)
        told = [record for record in caplog.records if record.name.startswith(("turnmill.control", "aiokafka"))]
        assert len(told) == 1, caplog.messages
        assert len(await read_all(settings, EVENTS)) >= 2
