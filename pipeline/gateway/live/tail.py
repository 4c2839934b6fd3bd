"""One consumer that follows the events topic for all live streams, and a few that read what lies further back.

None of them is in a group, so nobody's offsets change. The tail starts with the first live stream, `live_window` back,
so that it knows the runs that are open; readers wait until it has come to the end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.partitioner import murmur2

from pipeline.errors import BrokerError
from pipeline.gateway.live.fair_slots import FairSlots
from pipeline.gateway.live.recent_events import Held, Recent
from pipeline.kafka.following import follow_on
from pipeline.kafka.reading import ANSWER_WITHIN, bounds_of, follow, new_consumer, offsets_at, read, reader, stop
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from topics.catalog import EVENTS
from topics.thread_key import ThreadKey
from turnmill.ending import ended

READERS: Final = 4  # consumers that read what lies further back
SCAN: Final = 8_000_000  # bytes of the topic that are read for one page
PAGE: Final = 2_000_000  # bytes in memory of one reader's records, before they are sent
CAUGHT_UP_WITHIN: Final = 20.0  # seconds that a reader waits for the tail
AGAIN: Final = 1.0  # seconds after a failure
AT_ONCE: Final = 500  # records between two looks at what else is to be done

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, int]


class EventTail:
    """`recent` is what was read; `changed` wakes the readers of a thread."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._topic = EVENTS.full_name(settings.topic_prefix)
        self._task: asyncio.Task[None] | None = None
        self._caught_up = asyncio.Event()
        self._trouble: str | None = None
        self._readers: dict[ThreadKey, set[asyncio.Event]] = {}
        self._idle: list[Any] = []  # consumers
        self._slots = FairSlots(READERS)
        self.recent = Recent(settings.gateway_live_bytes, int(settings.gateway_live_window * 1000))

    async def ready(self) -> None:
        """Return when the tail is at the end of the topic. Raises BrokerError."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="live-tail")
        try:
            async with asyncio.timeout(CAUGHT_UP_WITHIN):
                await self._caught_up.wait()
        except TimeoutError:
            window = f"{self._settings.gateway_live_window:g} s"
            why = self._trouble or f"it still reads the events of the last {window} (TURNMILL_GATEWAY_LIVE_WINDOW)"
            raise BrokerError(f"live streams are not ready: {why}") from None

    def partition_of(self, thread_id: str) -> int:
        """As Kafka's own clients place a key, and ours."""
        return int((murmur2(thread_id.encode()) & 0x7FFFFFFF) % len(self.recent.position))

    @asynccontextmanager
    async def heard(self, thread: ThreadKey) -> AsyncIterator[asyncio.Event]:
        """-> an event that is set when the thread has new records."""
        event = asyncio.Event()
        self._readers.setdefault(thread, set()).add(event)
        try:
            yield event
        finally:
            events = self._readers[thread]
            events.discard(event)
            if not events:
                del self._readers[thread]

    def wake(self) -> None:
        """All readers: to tell them to stop."""
        for events in self._readers.values():
            for event in events:
                event.set()

    async def page(self, thread: ThreadKey, partition: int, start: int, stop: int) -> tuple[list[Held], int]:
        """Records of a thread from the broker -> those of one page, and the offset behind it, at most `stop`.

        A page ends after SCAN bytes of whatever threads, so that a reader who looks for few records in many has a
        consumer no longer than others, and waits behind them for the next page: tenants get one in turn.
        """
        key, place = thread.thread_id.encode(), TopicPartition(self._topic, partition)
        found: list[Held] = []
        size = scanned = 0
        async with (
            self._consumer(thread.tenant) as consumer,
            aclosing(read(consumer, {place: (start, stop)})) as batches,
        ):
            async for _, records in batches:
                for record in records:
                    if size >= PAGE or scanned >= SCAN:
                        return found, record.offset
                    scanned += len(record.value or b"")
                    if record.key != key:
                        continue
                    held = Held(partition, record.offset, record.timestamp, record.value)
                    if held.thread == thread:  # another tenant's may have the same id
                        found.append(held)
                        size += held.size
        return found, stop

    async def span(self, partition: int, tenant: str | None) -> tuple[int, int]:
        """-> the first offset that is there, and the one that comes next. Raises BrokerError."""
        place = TopicPartition(self._topic, partition)
        async with self._consumer(tenant) as consumer:
            begin, end = await asyncio.gather(consumer.beginning_offsets([place]), consumer.end_offsets([place]))
        return int(begin[place]), int(end[place])

    async def close(self) -> None:
        """Leave the broker."""
        if self._task is not None:
            await ended(self._task)
        await asyncio.gather(*map(stop, self._idle))

    @asynccontextmanager
    async def _consumer(self, tenant: str | None) -> AsyncIterator[Any]:
        """One of a few. A failure within the block is a BrokerError, and its consumer is not used again."""
        async with self._slots.taken(tenant):
            fresh = not self._idle
            consumer = new_consumer(self._settings) if fresh else self._idle.pop()
            try:
                if fresh:
                    async with asyncio.timeout(ANSWER_WITHIN):
                        await consumer.start()
                yield consumer
                self._idle.append(consumer)
            except (KafkaError, OSError, TimeoutError) as error:
                await stop(consumer)
                what = str(error) or f"no answer for {ANSWER_WITHIN:.0f} s"
                raise BrokerError(f"Kafka at {self._settings.brokers}: {what}") from error
            except BaseException:
                await stop(consumer)
                raise

    async def _run(self) -> None:
        await follow_on(self._follow, self._stopped, pause=AGAIN, log=log, meanwhile="live streams stand still")

    def _stopped(self, trouble: str | None) -> None:
        self._trouble = trouble or self._trouble
        self._caught_up.clear()

    async def _follow(self) -> None:
        """Until the broker fails, or the topic has more partitions."""
        ends = {place: end for place, (_, end) in (await bounds_of(self._settings, EVENTS)).items()}
        async with reader(self._settings) as consumer:
            starts = await self._starts(consumer, ends)
            self._trouble = None
            async for batch in follow(self._settings, consumer, [EVENTS], starts):
                for records in batch.values():
                    await self._take(records)
                self._metrics.set(m.LIVE_HELD, self.recent.bytes)
                if not self._caught_up.is_set():
                    await self._look_whether_caught_up(consumer, ends)

    async def _look_whether_caught_up(self, consumer: AIOKafkaConsumer, ends: Offsets) -> None:
        position = self.recent.position
        for place, end in ends.items():  # where the end is no record, as behind a transaction's marker
            if position[place.partition] < end <= await consumer.position(place):
                position[place.partition] = end
        if all(position[place.partition] >= end for place, end in ends.items()):
            self._caught_up.set()

    async def _take(self, records: list[Any]) -> None:
        touched: set[ThreadKey] = set()
        for number, record in enumerate(records, 1):
            held = Held(record.partition, record.offset, record.timestamp, record.value)
            thread = self.recent.add(held)
            if thread in self._readers:
                touched.add(thread)
            if number % AT_ONCE == 0:
                self._tell(touched)
                await asyncio.sleep(0)
        self._tell(touched)

    def _tell(self, threads: set[ThreadKey]) -> None:
        for thread in threads:
            for event in self._readers.get(thread, ()):
                event.set()
        threads.clear()

    async def _starts(
        self, consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Where to go on; at first, where the window begins."""
        recent = self.recent
        fresh = {place: end for place, end in ends.items() if place.partition not in recent.position}
        since = int((time.time() - self._settings.gateway_live_window) * 1000)
        for place, start in (await offsets_at(consumer, since, fresh)).items():
            recent.begin(place.partition, start)
        return {place: recent.position[place.partition] for place in ends}
