"""A login that may not read the topic of commands publishes as before, with one line in the log."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest

from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.support.places import CACHE
from tests.support.topic_records import read_all
from tests.support.waiting import until
from topics.catalog import CONTROL, EVENTS
from turnmill import Publisher
from turnmill.errors import BrokerError
from turnmill.kafka import group_reader
from turnmill.kafka.group_reader import GroupReader

TOPIC, LITERAL, READ, DESCRIBE, DENY, ALLOW, ANY = 2, 3, 3, 8, 2, 3, 1  # as Kafka numbers them
GUARDED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


async def rule(settings: Settings, topic: str, permissions: Mapping[int, int]) -> None:
    """Let all logins do something with a topic, or not, by operation, and nothing else; it is in force on return.

    The broker confirms a rule before it obeys it: asked for its rules, it answers with those that it obeys.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.broker_list)
    await admin.start()

    async def in_force() -> bool:
        answer = await admin._send_request(DescribeAclsRequest(TOPIC, topic, LITERAL, None, None, ANY, ANY))
        assert answer.error_code == 0, answer
        found = [rules for *_, rules in answer.resources]
        return {rule[2:] for rules in found for rule in rules} == {*permissions.items()}

    try:
        for operation, permission in permissions.items():
            made = CreateAclsRequest(TOPIC, topic, LITERAL, "User:*", "*", operation, permission)
            answer = await admin._send_request(made)
            assert [code for code, _ in answer.creation_responses] == [0], answer
        await until(in_force)
    finally:
        await admin.close()


@pytest.mark.parametrize("visible", [False, True], ids=["hidden", "visible"])
async def test_it_publishes_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, visible: bool
) -> None:
    settings = Settings(home=tmp_path, cache=CACHE, brokers=f"127.0.0.1:{free_ports(1)[0]}", partitions=1)
    topic = CONTROL.full_name(settings.topic_prefix)

    with local.running(settings, extra=GUARDED):
        await apply_topics(settings)
        await rule(settings, topic, {READ: DENY, DESCRIBE: ALLOW} if visible else {READ: DENY})
        with caplog.at_level(logging.WARNING):
            async with Publisher(settings) as publisher:
                for number in range(2):
                    run = publisher.run(thread_id="t", agent_id="a", dialect="vercel-ai", run_id=f"r{number}")
                    async with run:
                        await run.send({"type": "start"})

                        async def refused() -> bool:
                            return any("receive no commands" in line for line in caplog.messages)

                        await until(refused)
        told = [record for record in caplog.records if record.name.startswith(("turnmill", "aiokafka"))]
        assert len(told) == 1, caplog.messages
        assert len(await read_all(settings, EVENTS)) >= 2


@pytest.mark.parametrize("error", group_reader.NOT_ALLOWED)
async def test_a_reader_that_may_not_ask_where_to_begin_ends(
    monkeypatch: pytest.MonkeyPatch, error: type[KafkaError]
) -> None:
    """It was assigned its partitions before the broker began to refuse it."""
    reader = GroupReader(Settings(), "t", None, "latest", 60.0)

    async def refuse(*_: object) -> None:
        raise error("t")

    async def no_reason(_: object) -> None: ...

    monkeypatch.setattr(reader, "_consumer", object())
    monkeypatch.setattr(reader, "_seek", refuse)
    monkeypatch.setattr(group_reader, "refusal", no_reason)
    await reader.on_partitions_assigned([])
    with pytest.raises(BrokerError, match=error.__name__):
        await reader.poll()
