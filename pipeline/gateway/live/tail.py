"""The events that live streams share: recent ones in memory, and a few consumers that read earlier ones.

The tail joins the gateway's follower at the first live stream. It begins `live_window` earlier, to know where runs
began; readers wait until it has reached the end.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from pipeline.assembly.run_list import ListedRun
from pipeline.gateway.live.event_record import EventRecord
from pipeline.gateway.live.follower import Follower, Offsets, Past
from pipeline.gateway.live.recent_events import Position, Recent
from pipeline.gateway.state import Service
from pipeline.kafka.reading import ANSWER_TIMEOUT, may_name, new_consumer, read, stop
from pipeline.observability import metrics as m
from pipeline.policies.pools import READERS
from pipeline.policies.slots import Slots
from pipeline.settings import Settings
from topics.catalog import EVENTS
from topics.thread_key import ThreadKey
from turnmill.errors import BrokerError

SCAN_BYTES: Final = 8_000_000  # of the topic that are read for one page
PAGE_BYTES: Final = 2_000_000  # of one reader's records in memory, before they are sent
CATCH_UP_TIMEOUT: Final = 20.0  # seconds for which a reader waits for the tail
RUN_BYTES: Final = 134_217_728  # of memory for finished runs of the window


class EventTail(Service):
    """The newest records of the events topic, in `recent`; a listener of the follower."""

    name = "recent events"
    topics = (EVENTS,)
    runs: Final = "seen"

    def __init__(self, settings: Settings, follower: Follower, metrics: m.Metrics) -> None:
        self._settings = settings
        self._follower = follower
        self._metrics = metrics
        self._topic = EVENTS.full_name(settings.topic_prefix)
        self._window = int(settings.gateway_live_window * 1000)
        self._readers: dict[ThreadKey, set[asyncio.Event]] = {}
        self._idle: list[Any] = []  # consumers
        self._slots = Slots(READERS.size)
        self.recent = Recent(settings.gateway_live_bytes)

    async def ready(self) -> None:
        """Return once the tail has reached the end of the topic. Raises BrokerError."""
        window = f"{self._settings.gateway_live_window:g} s"
        late = f"the events of the last {window} (TURNMILL_GATEWAY_LIVE_WINDOW) are still being read"
        await self._follower.ready(self, CATCH_UP_TIMEOUT, late)

    async def starts(self, past: Past) -> Offsets:
        """Return where the window begins."""
        runs = self._follower.runs
        runs.window, runs.over.size = max(runs.window, self._window), RUN_BYTES
        starts = await past.since(self.topics, self._settings.gateway_live_window)
        for partition, start in starts.items():
            self.recent.begin(partition.partition, start)
        return starts

    def take(self, partition: TopicPartition, records: Sequence[EventRecord], behind: int) -> None:
        """Keep records, and wake the readers of their threads."""
        if behind < self.recent.position.get(partition.partition, behind + 1):  # new here, or created again
            self.recent.begin(partition.partition, behind if not records else records[0].offset)
        for thread in {self.recent.add(record) for record in records}:
            for event in self._readers.get(thread, ()) if thread is not None else ():
                event.set()
        self.recent.position[partition.partition] = behind
        self._metrics.set(m.LIVE_HELD, self.recent.bytes)

    def runs_of(self, thread: ThreadKey) -> dict[str, ListedRun]:
        """Return the thread's runs within the window, by id, in the order in which they began."""
        return self._follower.runs.of_thread(thread, self._follower.runs.now - self._window)

    def is_open(self, run: ListedRun) -> bool:
        """Return True if the worker still assembles a run, as far as its marks have been read."""
        return self._follower.runs.is_open(run.key)

    def threads(self, thread_id: str) -> set[ThreadKey]:
        """Return the threads with this id that have runs within the window, one for each tenant."""
        return self._follower.runs.threads(thread_id, self._follower.runs.now - self._window)

    def behind(self, thread: ThreadKey, position: Position, asked: Collection[int]) -> int | None:
        """Return a partition whose next records a reader must take from the broker; None if all are in memory.

        It passes over what is no longer in memory of partitions that it has not asked for, if none of the thread's runs
        is there.
        """
        late = [number for number, low in self.recent.floor.items() if position.offsets.get(number, 0) < low]
        if late:
            held = {number for run in self.runs_of(thread).values() for number in run.firsts}.union(asked)
            for number in late:
                if number in held:
                    return number
                position.offsets[number] = self.recent.floor[number]
        return None

    def within_window(self, at: int) -> bool:
        """Return True if runs with a record at this broker time (epoch ms) are known."""
        return at >= self._follower.runs.now - self._window

    @asynccontextmanager
    async def heard(self, thread: ThreadKey) -> AsyncIterator[asyncio.Event]:
        """Yield an event that is set when the thread has new records."""
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
        """Wake all readers, so that they notice the stop."""
        for events in self._readers.values():
            for event in events:
                event.set()

    async def page(self, thread: ThreadKey, partition: int, start: int, stop: int) -> tuple[list[EventRecord], int]:
        """Return a page of a thread's records from the broker, and the next offset to read, at most `stop`.

        A page ends after SCAN_BYTES of any threads, so that a reader of a thread with few records among many uses a
        consumer no longer than others do. For its next page it queues again: tenants get consumers in turn.
        """
        key, tp = thread.thread_id.encode(), TopicPartition(self._topic, partition)
        records_of_thread: list[EventRecord] = []
        size = scanned = 0
        async with self._consumer(thread.tenant) as consumer, aclosing(read(consumer, {tp: (start, stop)})) as batches:
            async for _, records in batches:
                for record in records:
                    if size >= PAGE_BYTES or scanned >= SCAN_BYTES:
                        return records_of_thread, record.offset
                    scanned += len(record.value or b"")
                    if not may_name(record, key):
                        continue
                    held = EventRecord(partition, record.offset, record.timestamp, record.value)
                    if held.thread == thread:  # another tenant's thread may have the same id
                        records_of_thread.append(held)
                        size += held.size
        return records_of_thread, stop

    async def span(self, partition: int, tenant: str | None) -> tuple[int, int]:
        """Return the partition's first offset and its end. Raises BrokerError."""
        whole = TopicPartition(self._topic, partition)
        async with self._consumer(tenant) as consumer:
            begin, end = await asyncio.gather(consumer.beginning_offsets([whole]), consumer.end_offsets([whole]))
        return int(begin[whole]), int(end[whole])

    async def close(self) -> None:
        """Leave the broker."""
        await asyncio.gather(*map(stop, self._idle))

    @asynccontextmanager
    async def _consumer(self, tenant: str | None) -> AsyncIterator[Any]:
        """Yield one of a few consumers. After a failure in the block, raise BrokerError, and discard the consumer."""
        async with self._slots.taken(tenant):
            fresh = not self._idle
            consumer = new_consumer(self._settings) if fresh else self._idle.pop()
            try:
                if fresh:
                    async with asyncio.timeout(ANSWER_TIMEOUT):
                        await consumer.start()
                yield consumer
                self._idle.append(consumer)
            except (KafkaError, OSError, TimeoutError) as error:
                await stop(consumer)
                what = str(error) or f"no answer for {ANSWER_TIMEOUT:.0f} s"
                raise BrokerError(f"Kafka at {self._settings.brokers}: {what}") from error
            except BaseException:
                await stop(consumer)
                raise
