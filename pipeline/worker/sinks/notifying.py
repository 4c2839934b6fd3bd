"""Sends the notices that wait in the store to their topic, besides the store role's own work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiokafka.errors import KafkaError

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.stores.threads.store import ThreadStore
from pipeline.worker.host.steps import Steps
from topics import notice
from topics.notice import NoticeRecord
from turnmill.clock import now_ms
from turnmill.errors import BrokerError
from turnmill.kafka.producer import KafkaProducer

QUERY_INTERVAL: Final = 2.0  # seconds between two queries
MORE_INTERVAL: Final = 0.1  # the same, if there may be more
RETRY_DELAY: Final = 10.0  # seconds after a failure

log = logging.getLogger(__name__)


class Notifying:
    """Sends notices in steps; several workers may do so at once, each with notices of its own."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[KafkaProducer]],
        store: Callable[[], Awaitable[ThreadStore]],
        metrics: Metrics,
    ) -> None:
        """`connect`: return a producer for the topic of notices."""
        self._connect = connect
        self._store = store
        self._metrics = metrics
        self.steps = Steps(self._step, RETRY_DELAY, log, "notices wait to be sent")

    def step(self) -> None:
        """Begin to send some, if it is time to."""
        self.steps.begin()

    async def _step(self) -> float:
        store = await self._store()
        some = await store.due_notices(now_ms())
        if not some:
            return QUERY_INTERVAL
        try:
            await self._send(some)
        except (
            BrokerError,
            KafkaError,
            OSError,
            TimeoutError,
        ) as error:  # the claim expires, and they are sent again
            log.warning("%d notices wait to be sent: %s", len(some), error)
            return RETRY_DELAY
        await store.notices_sent([one["id"] for one in some], now_ms())
        for one in some:
            self._metrics.add(m.NOTICES, type=one["type"])
        return MORE_INTERVAL

    async def _send(self, some: list[NoticeRecord]) -> None:
        """Send notices, and return once the topic has them. They are few, so the producer is made just for them."""
        producer = await self._connect()
        try:
            sent = [await producer.send(notice.key_of(one), notice.encode(one), None) for one in some]
            await asyncio.gather(*sent)
        finally:
            await producer.close()
