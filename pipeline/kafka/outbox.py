"""What was handed to the producer and is not delivered yet. `producer.flush()` proves nothing; a future does."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from aiokafka.errors import MessageSizeTooLargeError

log = logging.getLogger(__name__)

Headers = list[tuple[str, bytes]]


class Producer(Protocol):
    """Faust's producer, as far as it is needed."""

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: Headers | None,
    ) -> Awaitable[object]:
        """Hand a record to the producer; the result is its delivery."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be produced."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: Headers | None = None


class Outbox:
    """Sends whose delivery is checked; one that failed is sent again.

    `instead`: what to send for a record that is larger than its topic takes, and so can never be delivered.
    """

    def __init__(self, producer: Producer, instead: Callable[[Outgoing], Outgoing] | None = None) -> None:
        self.producer = producer
        self.instead = instead
        self.pending: list[tuple[asyncio.Future[object], Outgoing]] = []
        self.failed: deque[Outgoing] = deque()
        self.failures = 0

    async def send(self, record: Outgoing) -> None:
        """Register a record for delivery; returns when the producer has it."""
        try:
            delivery = await self.producer.send(
                record.topic, record.key, record.value, record.partition, None, record.headers
            )
        except Exception as error:
            other = self._again(record, error)
            if other is record:
                raise
            await self.send(other)
        else:
            self.pending.append((asyncio.ensure_future(delivery), record))

    async def flush(self) -> bool:
        """Wait for all that was sent before this call. False: some failed, and is sent again, now or later."""
        todo, self.pending = self.pending, []
        try:
            if todo:
                await asyncio.wait([delivery for delivery, _ in todo])
        except asyncio.CancelledError:
            self.pending = todo + self.pending
            raise
        for delivery, record in todo:
            error = asyncio.CancelledError() if delivery.cancelled() else delivery.exception()
            if error is not None:
                self.failures += 1
                log.warning("not delivered to %s, sent again: %r", record.topic, error)
                self.failed.append(self._again(record, error))
        if not self.failed:
            return True
        try:
            while self.failed:
                await self.send(self.failed[0])
                self.failed.popleft()
        except Exception as error:  # the rest waits for the next flush
            log.warning("the producer takes nothing: %r", error)
        return False

    def _again(self, record: Outgoing, error: BaseException) -> Outgoing:
        too_large = isinstance(error, MessageSizeTooLargeError) or isinstance(error.__cause__, MessageSizeTooLargeError)
        return self.instead(record) if too_large and self.instead is not None else record
