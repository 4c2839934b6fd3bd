"""The Kafka producer of a publisher. Closing it does not wait for a broker that is away."""

import asyncio
import logging
from itertools import chain
from typing import Any, Final

from aiokafka import AIOKafkaProducer, errors

from turnmill.addresses import unreachable
from turnmill.errors import BrokerError
from turnmill.kafka.client import client_options
from turnmill.kafka.client_log import RARELY, client_log
from turnmill.kafka.probe import NO_KAFKA
from turnmill.kafka.refusal import refusal
from turnmill.settings import ClientSettings
from turnmill.wire.envelope import Headers

CONNECT_TIMEOUT: Final = 10.0  # seconds
TOPIC_LOOKS: Final = 25  # 3 s or longer, until the queried broker knows a topic that has just been created
REQUEST_TIMEOUT_MS: Final = 10_000
BATCH_BYTES: Final = 512 * 1024  # of a partition's batch in a produce request
# Permanent: a retry would fail again.
REFUSED: Final = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)

log = logging.getLogger(__name__)


class KafkaProducer:
    """An idempotent producer for a topic; see `turnmill.publish.delivery`."""

    def __init__(self, producer: AIOKafkaProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def send(self, key: bytes, value: bytes, headers: Headers | None) -> asyncio.Future[Any]:
        """Put a record into the batch of its partition; wait if that is full."""
        try:
            future: asyncio.Future[Any] = await self._producer.send(self._topic, value, key, headers=headers)
        except errors.KafkaTimeoutError as error:
            raise TimeoutError from error
        except REFUSED:
            raise
        except errors.KafkaError as error:
            raise BrokerError(repr(error)) from error
        return future

    def refuses(self, error: BaseException) -> bool:
        """Return True if a record, or the batch with it, is larger than the topic or the client allows."""
        return isinstance(error, REFUSED)

    async def close(self) -> None:
        """Disconnect within a second."""
        await _disconnect(self._producer)


async def connected(settings: ClientSettings, topic: str) -> KafkaProducer:
    """Return a producer that knows `topic`. Raises BrokerError after about 10 s, with the address."""
    producer = AIOKafkaProducer(
        **client_options(settings),
        client_id=f"{settings.topic_prefix}-publisher",
        acks="all",
        enable_idempotence=True,
        compression_type=None if settings.compression == "none" else settings.compression,
        max_batch_size=BATCH_BYTES,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    brokers = settings.brokers
    wrong = f"no Kafka broker answers at {brokers}: start one (`turnmill up`), or set TURNMILL_BROKERS"
    try:
        with client_log(RARELY):
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await producer.start()
        wrong = f"{brokers} has not said within {CONNECT_TIMEOUT:.0f} s whether it has a topic {topic}: try again"
        async with asyncio.timeout(CONNECT_TIMEOUT):
            for _ in range(TOPIC_LOOKS):  # not with `partitions_for`, which would have brokers create the topic
                if producer.client.cluster.partitions_for_topic(topic) is not None:
                    return KafkaProducer(producer, topic)
                await asyncio.sleep(0.1)
                await producer.client.force_metadata_update()  # of all topics, as it names none yet
        wrong = f"{brokers} has no topic {topic}: `turnmill topics apply` creates it"
        raise TimeoutError
    except (errors.KafkaError, OSError, TimeoutError) as error:
        await _disconnect(producer)
        reason = await refusal(settings)
        if reason is None and not producer.client.cluster.brokers():
            wrong += f" ({await asyncio.to_thread(unreachable, settings.broker_list[0]) or NO_KAFKA})"
        raise reason or BrokerError(wrong) from error
    except BaseException:
        await _disconnect(producer)
        raise


async def _disconnect(producer: AIOKafkaProducer) -> None:
    """Stop a producer, even if its broker is away: aiokafka's `stop` alone would wait for the broker."""
    try:
        async with asyncio.timeout(1.0):
            await producer.stop()
    except TimeoutError:
        sender: asyncio.Task[None] = producer._sender.sender_task  # noqa: SLF001  # it would retry for ever
        sender.cancel()
        await producer.client.close()
        await asyncio.wait([sender], timeout=1.0)
        accumulator = producer._message_accumulator  # noqa: SLF001  # its batches have waiters
        accumulator.fail_all(errors.ProducerClosed())
        for batch in chain(*accumulator._batches.values(), accumulator._pending_batches):  # noqa: SLF001
            batch._drain_waiter.exception()  # noqa: SLF001  # else asyncio logs it as never retrieved
    except errors.KafkaError as error:
        log.debug("while disconnecting: %r", error)
