"""The tail of the topics that all readers of live figures share: one consumer, without a group."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from pipeline.errors import BrokerError
from pipeline.gateway.dashboard.figures import WINDOW
from pipeline.gateway.dashboard.intake import Intake
from pipeline.kafka.following import follow_on
from pipeline.kafka.offsets import bounds
from pipeline.kafka.reading import follow, offsets_at, reader
from pipeline.settings import Settings
from topics.catalog import CATALOG
from turnmill.clock import now_ms
from turnmill.ending import ended

LINGER: Final = 60.0  # seconds for which it goes on without readers
AGAIN: Final = 2.0  # seconds between a failure and the next attempt
BEGIN: Final = 3_000  # the most records of each partition that are read at the start
BEHIND: Final = 50_000  # records of lag in a partition beyond which the tail skips to its end
AT_ONCE: Final = 500  # records of one poll
LATE: Final = 5.0  # seconds: older records mean that the tail is still catching up
FETCH: Final = 262_144  # bytes of one partition

log = logging.getLogger(__name__)

Batches = Mapping[TopicPartition, Sequence[Any]]


class Tail:
    """Reads the records of live figures. `trouble`: why there are none; `skipped`: number of records left out."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self._stop: asyncio.TimerHandle | None = None
        self._watchers = 0
        self._fresh()
        self._topics = {
            topic.full_name(settings.topic_prefix): topic for topic in CATALOG if topic.name in self.intake.topics
        }

    def _fresh(self) -> None:
        self.intake = Intake(int(self._settings.idle_timeout * 1000))
        self.trouble: str | None = "connecting"
        self.skipped = 0
        self.catching_up = True  # records from before the first reader came are still being read

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Run the tail during the block, and LINGER seconds longer."""
        if self._stop is not None:
            self._stop.cancel()
            self._stop = None
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="dashboard-tail")
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._stop = asyncio.get_running_loop().call_later(LINGER, self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """Leave the broker."""
        if self._stop is not None:
            self._stop.cancel()
        if self._task is not None:
            await ended(self._task)

    async def _run(self) -> None:
        await follow_on(self._follow, self._stopped, pause=AGAIN, log=log, meanwhile="no live figures")

    def _stopped(self, trouble: str | None) -> None:
        self.trouble = trouble or self.trouble

    async def _follow(self) -> None:
        """Read until the topics have other partitions. Raises BrokerError where the broker fails."""
        self._fresh()
        spans = await bounds(self._settings, self._topics.values())
        if not spans:
            raise BrokerError("there are no topics yet: `turnmill topics apply` creates them")
        ends = {place: end for place, (_, end) in spans.items()}
        async with reader(self._settings, max_partition_fetch_bytes=FETCH, max_poll_records=AT_ONCE) as consumer:
            since = await offsets_at(consumer, int((time.time() - WINDOW) * 1000), ends)
            starts = {place: max(since[place], end - BEGIN) for place, end in ends.items()}
            async for batches in follow(self._settings, consumer, self._topics.values(), starts):
                self.trouble = None
                await self._take(consumer, batches, ends)

    async def _take(self, consumer: AIOKafkaConsumer, batches: Batches, behind: dict[TopicPartition, int]) -> None:
        """Take one poll. `behind`: partition -> its end at the start; partitions are removed when they reach it."""
        late = (time.time() - LATE) * 1000
        for place in [place for place, end in behind.items() if await consumer.position(place) >= end]:
            del behind[place]
        self.catching_up = bool(behind) or any(records[-1].timestamp < late for records in batches.values())
        for place, records in batches.items():
            for record in records:
                self.intake.take(self._topics[place.topic].name, record.value, record.timestamp)
            await self._keep_up(consumer, place)
        self.intake.runs.expire(now_ms())
        await asyncio.sleep(0)

    async def _keep_up(self, consumer: AIOKafkaConsumer, place: TopicPartition) -> None:
        end, position = consumer.highwater(place), await consumer.position(place)
        if end is not None and end - position > BEHIND:
            self.skipped += end - position
            await consumer.seek_to_end(place)
