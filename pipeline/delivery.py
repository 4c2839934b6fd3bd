"""Records between the publisher and the broker: sent in order, confirmed, and bounded in bytes."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError

from pipeline.errors import BrokerError
from pipeline.settings import Settings

CONNECT_WITHIN = 10.0  # seconds
TOPIC_WITHIN = 3.0  # seconds for a topic that was created just now to be known to the broker that is asked
REQUEST_TIMEOUT_MS = 10_000
UNCONFIRMED_BYTES = 32 * 1024 * 1024
BATCH_BYTES = 512 * 1024  # of one produce request's part for a partition

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """What went through a publisher; `bytes` of record values."""

    runs: int = 0
    events: int = 0
    records: int = 0
    bytes: int = 0
    confirmed: int = 0


class Delivery:
    """Records on their way to the broker, in order, until it has confirmed them; `room` keeps them within bounds."""

    def __init__(self, producer: AIOKafkaProducer, topic: str, brokers: str, counts: Counts) -> None:
        self._producer = producer
        self._topic = topic
        self._brokers = brokers
        self._counts = counts
        self._waiting: deque[tuple[bytes, bytes]] = deque()
        self._unconfirmed = 0  # records that wait or are in the producer's hands
        self._bytes = 0
        self._changed = asyncio.Event()
        self._more = asyncio.Event()
        self.failure: str | None = None
        self._task = asyncio.create_task(self._pump())
        self._task.add_done_callback(self._stopped)

    def put(self, key: bytes, value: bytes) -> None:
        """Take a record; the caller has waited for `room`."""
        self._waiting.append((key, value))
        self._unconfirmed += 1
        self._bytes += len(value)
        self._counts.records += 1
        self._counts.bytes += len(value)
        self._more.set()

    async def room(self) -> None:
        """Wait while too much is unconfirmed. Raises BrokerError once the broker has refused a record."""
        while self._bytes > UNCONFIRMED_BYTES and self.failure is None:
            await self._next_change()
        if self.failure:
            raise BrokerError(f"{self._brokers} refuses what is published: {self.failure}")

    async def drained(self, within: float) -> int:
        """Wait until all is confirmed, for at most `within` seconds. -> how many records are not."""
        try:
            async with asyncio.timeout(within):
                while self._unconfirmed and self.failure is None:
                    await self._next_change()
        except TimeoutError:
            pass
        return self._unconfirmed

    async def close(self, within: float) -> int:
        """Send what waits, then disconnect. -> how many records were not confirmed."""
        try:
            left = await self.drained(within)
        finally:
            self._task.cancel()
            await _disconnect(self._producer)
        return left

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _pump(self) -> None:
        while True:
            while self._waiting:
                key, value = self._waiting[0]
                try:
                    delivery = await self._producer.send(self._topic, value, key)
                except KafkaTimeoutError:
                    continue  # the broker takes nothing just now
                except KafkaError as error:
                    self._fail(error)
                    return
                self._waiting.popleft()
                delivery.add_done_callback(partial(self._delivered, len(value)))
            self._more.clear()
            await self._more.wait()

    def _delivered(self, size: int, delivery: asyncio.Future[Any]) -> None:
        if delivery.cancelled() or delivery.exception() is not None:
            self._fail(None if delivery.cancelled() else delivery.exception())
            return
        self._unconfirmed -= 1
        self._bytes -= size
        self._counts.confirmed += 1
        self._changed.set()

    def _stopped(self, _: asyncio.Task[None]) -> None:
        """Nothing will go out any more: as when an event loop ends, which cancels all its tasks."""
        self.failure = self.failure or "sending was cancelled"
        self._changed.set()

    def _fail(self, error: BaseException | None) -> None:
        self.failure = self.failure or repr(error)
        self._changed.set()


async def connected(settings: Settings, topic: str) -> AIOKafkaProducer:
    """An idempotent producer that knows `topic`. Raises BrokerError after about 10 s, with the address."""
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.broker_list,
        client_id=f"{settings.topic_prefix}-publisher",
        acks="all",
        enable_idempotence=True,
        compression_type=None if settings.compression == "none" else settings.compression,
        max_batch_size=BATCH_BYTES,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    brokers = settings.brokers
    wrong = f"no Kafka broker answers at {brokers}: start one (`threadmill up`), or set THREADMILL_BROKERS"
    try:
        async with asyncio.timeout(CONNECT_WITHIN):
            await producer.start()
        wrong = f"{brokers} has no topic {topic}: `threadmill topics apply` creates it"
        async with asyncio.timeout(TOPIC_WITHIN):
            await producer.partitions_for(topic)
    except (KafkaError, OSError, TimeoutError) as error:
        await _disconnect(producer)
        raise BrokerError(wrong) from error
    except BaseException:
        await _disconnect(producer)
        raise
    return producer


async def _disconnect(producer: AIOKafkaProducer) -> None:
    """Stop a producer, also one whose broker is gone: its own `stop` would wait for that."""
    try:
        async with asyncio.timeout(1.0):
            await producer.stop()
    except TimeoutError:
        await producer.client.close()
    except KafkaError as error:
        log.debug("while disconnecting: %r", error)
