"""Read the answers that wait until an agent resumes its run: from the control topic, or from a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final

from turnmill.clock import now_ms
from turnmill.control.claims import Answer, answer_of, open_answers
from turnmill.control.record import TOPIC, command_of, record_of
from turnmill.environment import load_settings
from turnmill.errors import BrokerError, InvalidRecord
from turnmill.gateway_call import call
from turnmill.identity import thread_uuid
from turnmill.loop_thread import run_apart

if TYPE_CHECKING:
    from turnmill.settings import ClientSettings

BROKER_TIMEOUT: Final = 15.0  # seconds to wait for the broker


def answers(thread_id: str, *, tenant: str | None = None, settings: ClientSettings | None = None) -> list[Answer]:
    """Return a thread's answers of the last 14 days that no run has taken up, oldest first.

    The run that uses an answer acknowledges it with `await run.acknowledge(answer)`. Until then it is returned again.

    Args:
        thread_id: The conversation, by the name that its producer gave it, or its UUID.
        tenant: The tenant; over HTTP, that of the token.
        settings: By default read from the environment.

    Raises:
        CallerError: The environment is wrong.
        BrokerError: The broker or the gateway can't be read.
    """
    return run_apart(_answers(thread_id, tenant, settings))


async def _answers(name: str, tenant: str | None, settings: ClientSettings | None) -> list[Answer]:
    settings = settings or load_settings()
    if settings.publish_url is not None:
        body = await call(settings, "GET", "/v1/threads/{}/answers", name)
        commands = [command_of(row) for row in body["answers"]]
        return [answer_of(command) for command in commands if command is not None]
    thread_id = thread_uuid(name, tenant)[0]
    return open_answers([record async for record in _records(settings, thread_id)], tenant, thread_id, now_ms())


async def _records(settings: ClientSettings, thread_id: str) -> AsyncGenerator[dict[str, Any]]:
    """Yield a thread's records of the control topic up to its current end, each partition in order.

    Those of other threads are not parsed: they may be many, and large.
    """
    from aiokafka import AIOKafkaConsumer, TopicPartition  # noqa: PLC0415  # no gateway needs it
    from aiokafka.errors import KafkaError  # noqa: PLC0415

    from turnmill.kafka.client import client_options  # noqa: PLC0415
    from turnmill.kafka.unpacking import bounded  # noqa: PLC0415

    topic = f"{settings.topic_prefix}.{TOPIC}"
    consumer = bounded(AIOKafkaConsumer(**client_options(settings), enable_auto_commit=False))
    try:
        async with asyncio.timeout(BROKER_TIMEOUT):
            await consumer.start()
            numbers = (await consumer._client.fetch_all_metadata()).partitions_for_topic(topic)  # noqa: SLF001
            partitions = [TopicPartition(topic, number) for number in numbers or ()]
            begins, ends = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
        unread = {partition for partition in partitions if begins[partition] < ends[partition]}
        consumer.assign(list(unread))
        for partition in unread:
            consumer.seek(partition, begins[partition])
        while unread:
            async with asyncio.timeout(BROKER_TIMEOUT):
                batches = await consumer.getmany(*unread, timeout_ms=500)
            values = (record.value for records in batches.values() for record in records)
            for value in values:
                if value is None or thread_id.encode() not in value:
                    continue
                try:
                    yield record_of(value)
                except InvalidRecord:
                    continue
            unread = {partition for partition in unread if await consumer.position(partition) < ends[partition]}
    except (KafkaError, OSError, TimeoutError) as error:
        raise BrokerError(f"Kafka at {settings.brokers} does not say which answers there are: {error!r}") from error
    finally:
        await consumer.stop()
