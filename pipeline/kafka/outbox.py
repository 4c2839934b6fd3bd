"""Records that were given to the producer, and that the broker has not confirmed yet.

The future of each delivery is checked, since `producer.flush()` does not raise the errors of deliveries.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice, takewhile
from typing import Final, NamedTuple, Protocol

from aiokafka.errors import MessageSizeTooLargeError

from pipeline.observability.logs import RepeatedWarning
from turnmill.wire.envelope import Headers

MAX_REQUEST_BYTES: Final = 20_000_000  # a worker's producer sends at once, below the limit of the topics

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
        """Send as many of the first records as fit into one batch. Return (their number, at least 1; their delivery).

        Raises MessageSizeTooLargeError if the first record fits into no batch.
        """


class Outbox:
    """Sends records, checks their delivery, and sends failed ones again.

    `instead`: returns the replacement for a record that is too large for its topic, and so can never be delivered.
    """

    def __init__(self, producer: Producer, instead: Callable[[Outgoing], Outgoing] | None = None) -> None:
        self.producer = producer
        self.instead = instead
        self.pending: deque[tuple[asyncio.Future[object], list[Outgoing]]] = deque()
        self.failed: deque[Outgoing] = deque()
        self.warn = RepeatedWarning(log)  # large records, or a broker that is away, may cause any number of warnings

    async def send(self, records: deque[Outgoing], at_once: int = 1000) -> None:
        """Give records to the producer, in order; each is removed from `records` when the producer has it."""
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
                self.pending.popleft()  # free confirmed records: during a backlog, one second of them fills the memory

    async def flush(self) -> bool:
        """Wait for all records sent before this call. Return False if some failed; they are sent again later."""
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
            await self.send(self.failed, at_once=1)  # one by one: the batch may have been refused for its size
        except Exception as error:  # the others wait for the next flush
            self.warn(type(error).__name__, "the producer accepts no records: %r", error)
        return False

    def _again(self, record: Outgoing, error: BaseException) -> Outgoing:
        too_large = isinstance(error, MessageSizeTooLargeError)
        return self.instead(record) if too_large and self.instead is not None else record


def _failure(delivery: asyncio.Future[object]) -> BaseException | None:
    """Return why a finished delivery failed; None if it succeeded."""
    return asyncio.CancelledError() if delivery.cancelled() else delivery.exception()
