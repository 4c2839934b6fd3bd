"""One consumer that follows the events topic for all live streams, and a few that read what lies further back.

None of them is in a group, so nobody's offsets change. The tail starts with the first live stream, `live_window` back,
so that it knows the runs that are open; readers wait until it has come to the end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.partitioner import murmur2

from pipeline.errors import BrokerError
from pipeline.gateway.live.recent_events import Held, Recent
from pipeline.kafka.admin import describe_topics
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from threadmill.kafka.client import client_options
from topics.catalog import EVENTS

READERS: Final = 4  # consumers that read what lies further back
PAGE: Final = 2_000_000  # bytes in memory of one reader's records, before they are sent
WITHIN: Final = 15.0  # seconds for the broker to answer
CAUGHT_UP_WITHIN: Final = 20.0  # seconds that a reader waits for the tail
GROWN: Final = 60.0  # seconds between two looks at whether the topic has more partitions
AGAIN: Final = 1.0  # seconds after a failure
AT_ONCE: Final = 500  # records between two looks at what else is to be done

log = logging.getLogger(__name__)


class EventTail:
    """`recent` is what was read; `changed` wakes the readers of a thread."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._topic = EVENTS.full_name(settings.topic_prefix)
        self._task: asyncio.Task[None] | None = None
        self._caught_up = asyncio.Event()
        self._trouble: str | None = None
        self._readers: dict[str, set[asyncio.Event]] = {}
        self._idle: list[Any] = []  # consumers
        self._slots = asyncio.Semaphore(READERS)
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
            why = self._trouble or f"it still reads the events of the last {window} (THREADMILL_GATEWAY_LIVE_WINDOW)"
            raise BrokerError(f"live streams are not ready: {why}") from None

    def partition_of(self, thread_id: str) -> int:
        """As Kafka's own clients place a key, and ours."""
        return int((murmur2(thread_id.encode()) & 0x7FFFFFFF) % len(self.recent.position))

    @asynccontextmanager
    async def heard(self, thread_id: str) -> AsyncIterator[asyncio.Event]:
        """-> an event that is set when the thread has new records."""
        event = asyncio.Event()
        self._readers.setdefault(thread_id, set()).add(event)
        try:
            yield event
        finally:
            events = self._readers[thread_id]
            events.discard(event)
            if not events:
                del self._readers[thread_id]

    def wake(self) -> None:
        """All readers: to tell them to stop."""
        for events in self._readers.values():
            for event in events:
                event.set()

    async def page(self, thread_id: str, partition: int, start: int, stop: int) -> tuple[list[Held], int]:
        """Records of a thread from the broker -> those of one page, and the offset behind it, at most `stop`."""
        key, place = thread_id.encode(), TopicPartition(self._topic, partition)
        found: list[Held] = []
        size, position = 0, start
        async with self._consumer() as consumer:
            consumer.assign([place])
            consumer.seek(place, start)
            while position < stop and size < PAGE:
                batch = await asyncio.wait_for(consumer.getmany(place, timeout_ms=1000), WITHIN)
                for record in batch.get(place, ()):
                    if record.offset >= stop or size >= PAGE:
                        return found, min(record.offset, stop)
                    position = record.offset + 1
                    if record.key == key:
                        held = Held.of(partition, record.offset, record.timestamp, record.key, record.value)
                        found.append(held)
                        size += held.size
                if not batch:
                    position = max(position, min(stop, await consumer.position(place)))
        return found, position

    async def span(self, partition: int) -> tuple[int, int]:
        """-> the first offset that is there, and the one that comes next. Raises BrokerError."""
        place = TopicPartition(self._topic, partition)
        async with self._consumer() as consumer:
            begin, end = await asyncio.gather(consumer.beginning_offsets([place]), consumer.end_offsets([place]))
        return int(begin[place]), int(end[place])

    async def close(self) -> None:
        """Leave the broker."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for consumer in self._idle:
            await consumer.stop()

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[Any]:
        """One of a few. A failure within the block is a BrokerError, and its consumer is not used again."""
        async with self._slots:
            consumer = self._idle.pop() if self._idle else None
            try:
                if consumer is None:
                    consumer = self._new()
                    await asyncio.wait_for(consumer.start(), WITHIN)
                yield consumer
                self._idle.append(consumer)
            except (KafkaError, OSError, TimeoutError) as error:
                await _stop(consumer)
                what = str(error) or f"no answer for {WITHIN:.0f} s"
                raise BrokerError(f"Kafka at {self._settings.brokers}: {what}") from error
            except BaseException:
                await _stop(consumer)
                raise

    def _new(self) -> Any:
        return AIOKafkaConsumer(
            **client_options(self._settings), enable_auto_commit=False, auto_offset_reset="earliest", group_id=None
        )

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except (KafkaError, OSError, TimeoutError, BrokerError) as error:
                self._trouble = str(error) or repr(error)
                log.warning("live streams stand still: %s", self._trouble)
            except Exception as error:  # it must come back, whatever it was
                self._trouble = repr(error)
                log.exception("live streams stand still")
            self._caught_up.clear()
            await asyncio.sleep(AGAIN)

    async def _follow(self) -> None:
        consumer = self._new()
        try:
            await asyncio.wait_for(consumer.start(), WITHIN)
            places = await self._places()
            consumer.assign(places)
            ends = await asyncio.wait_for(consumer.end_offsets(places), WITHIN)
            for place, start in (await self._starts(consumer, places, ends)).items():
                consumer.seek(place, start)
            self._trouble = None
            look = time.monotonic() + GROWN
            while True:
                if time.monotonic() > look:
                    if len(await self._places()) != len(places):
                        return
                    look = time.monotonic() + GROWN
                batch = await consumer.getmany(timeout_ms=500)
                for records in batch.values():
                    await self._take(records)
                self._metrics.set(m.LIVE_HELD, self.recent.bytes)
                if not self._caught_up.is_set():
                    position = self.recent.position
                    for place in places:  # where the end is no record, as behind a transaction's marker
                        if position[place.partition] < ends[place] <= await consumer.position(place):
                            position[place.partition] = ends[place]
                    if all(position[place.partition] >= ends[place] for place in places):
                        self._caught_up.set()
        finally:
            await _stop(consumer)

    async def _take(self, records: list[Any]) -> None:
        touched: set[str] = set()
        for number, record in enumerate(records, 1):
            held = Held.of(record.partition, record.offset, record.timestamp, record.key, record.value)
            thread_id = self.recent.add(held)
            if thread_id in self._readers:
                touched.add(thread_id)
            if number % AT_ONCE == 0:
                self._tell(touched)
                await asyncio.sleep(0)
        self._tell(touched)

    def _tell(self, threads: set[str]) -> None:
        for thread_id in threads:
            for event in self._readers.get(thread_id, ()):
                event.set()
        threads.clear()

    async def _places(self) -> list[Any]:
        found = next((topic for topic in await describe_topics(self._settings) if topic.name == self._topic), None)
        if found is None:
            raise BrokerError(
                f"{self._settings.brokers} has no topic {self._topic}: `threadmill topics apply` creates it"
            )
        return [TopicPartition(self._topic, partition.id) for partition in found.partitions]

    async def _starts(self, consumer: Any, places: list[Any], ends: dict[Any, int]) -> dict[Any, int]:
        """Where to go on; at first, where the window begins."""
        recent = self.recent
        fresh = [place for place in places if place.partition not in recent.position]
        if fresh:
            times = dict.fromkeys(fresh, int((time.time() - self._settings.gateway_live_window) * 1000))
            found = await asyncio.wait_for(consumer.offsets_for_times(times), WITHIN)
        for place in fresh:
            recent.begin(place.partition, found[place].offset if found[place] is not None else ends[place])
        return {place: recent.position[place.partition] for place in places}


async def _stop(consumer: Any) -> None:
    if consumer is not None:
        with suppress(KafkaError, OSError, TimeoutError):
            await asyncio.wait_for(asyncio.shield(consumer.stop()), 5.0)
