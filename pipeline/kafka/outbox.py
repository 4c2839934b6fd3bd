"""Records that the producer has and the broker has not confirmed yet.

Each delivery's future is checked: `producer.flush()` does not raise what failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice, takewhile
from typing import Final, NamedTuple, Protocol

from aiokafka.errors import MessageSizeTooLargeError

from pipeline.observability.repeated_warning import RepeatedWarning
from turnmill.envelope import Headers

LARGEST_REQUEST: Final = 20_000_000  # bytes that a worker's producer sends at once: below what the topics take

log = logging.getLogger(__name__)


class Outgoing(NamedTuple):
    """A record to be produced."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int
    headers: Headers | None = None


class Producer(Protocol):
    """The interface that the outbox needs of a producer."""

    async def send_batch(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> tuple[int, Awaitable[object]]:
        """Hand over as many of the first records as one batch takes. -> (their number, at least 1; their delivery).

        Raises MessageSizeTooLargeError where no batch takes the first.
        """


class Outbox:
    """Sends records, checks their delivery, and sends failed ones again.

    `instead`: record -> what to send for it if it is larger than its topic takes, and so can never be delivered.
    """

    def __init__(self, producer: Producer, instead: Callable[[Outgoing], Outgoing] | None = None) -> None:
        self.producer = producer
        self.instead = instead
        self.pending: deque[tuple[asyncio.Future[object], list[Outgoing]]] = deque()
        self.failed: deque[Outgoing] = deque()
        self.warn = RepeatedWarning(log)  # a tenant's large records, or a broker that is away, may bring any number

    async def send(self, records: deque[Outgoing], at_once: int = 1000) -> None:
        """Register records for delivery, in order; each leaves `records` when the producer has it."""
        while records:
            first = records[0]
            neighbours = takewhile(lambda r: r.topic == first.topic and r.partition == first.partition, records)  # noqa: B023
            some = list(islice(neighbours, at_once))
            try:
                taken, delivery = await self.producer.send_batch(first.topic, first.partition, some)
            except Exception as error:
                records[0] = self._again(first, error)
                if records[0] is first:
                    raise
                continue
            self.pending.append((asyncio.ensure_future(delivery), some[:taken]))
            for _ in range(taken):
                records.popleft()
            while self.pending and self.pending[0][0].done() and _failure(self.pending[0][0]) is None:
                self.pending.popleft()  # free confirmed records: with a backlog, those of a second fill the memory

    async def flush(self) -> bool:
        """Wait for all records sent before this call. -> False where some failed: they are sent again, now or later."""
        todo, self.pending = self.pending, deque()
        try:
            if todo:
                await asyncio.wait([delivery for delivery, _ in todo])
        except asyncio.CancelledError:
            self.pending = todo + self.pending
            raise
        for delivery, records in todo:
            error = _failure(delivery)
            if error is not None:
                topic = records[0].topic
                kind = f"{topic}: {type(error).__name__}"
                self.warn(kind, "%d not delivered to %s, sent again: %r", len(records), topic, error)
                self.failed += records if len(records) > 1 else [self._again(records[0], error)]
        if not self.failed:
            return True
        try:
            await self.send(self.failed, at_once=1)  # one by one: the broker may have refused the batch for its size
        except Exception as error:  # the rest waits for the next flush
            self.warn(type(error).__name__, "the producer takes nothing: %r", error)
        return False

    def _again(self, record: Outgoing, error: BaseException) -> Outgoing:
        too_large = isinstance(error, MessageSizeTooLargeError)
        return self.instead(record) if too_large and self.instead is not None else record


def _failure(delivery: asyncio.Future[object]) -> BaseException | None:
    """Why a finished delivery failed; None where it succeeded."""
    return asyncio.CancelledError() if delivery.cancelled() else delivery.exception()
