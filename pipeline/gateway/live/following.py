"""Following a thread: recent records from memory, earlier ones from the broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from pipeline.assembly.run_list import ListedRun
from pipeline.gateway.access.security import Still
from pipeline.gateway.live.event_record import EventRecord
from pipeline.gateway.live.follower import YIELD_RECORDS
from pipeline.gateway.live.recent_events import EventId, Reading
from pipeline.gateway.live.tail import EventTail
from pipeline.gateway.problems import Problem
from pipeline.gateway.state import Service
from pipeline.kafka.reading import portions
from pipeline.observability import metrics as m
from topics.thread_key import ThreadKey
from turnmill.limits import DECODED_BYTES

STREAM_SECONDS: Final = 3600.0  # seconds until a stream ends, to be resumed
RECHECK_INTERVAL: Final = 5.0  # seconds between two checks that the reader may go on


@dataclass(frozen=True, slots=True)
class Following:
    """What a reader follows: a thread's records from offset `start` on.

    `stop` is the end of the partition when the reader came; `still` returns whether it may go on.
    """

    thread: ThreadKey
    partition: int
    start: int
    stop: int
    reading: Reading
    runs: dict[str, ListedRun]
    still: Still


class Live(Service):
    """The live streams of a gateway; `stop` ends them all, so that their readers resume at another gateway."""

    def __init__(self, tail: EventTail, metrics: m.Metrics) -> None:
        self.tail = tail
        self.metrics = metrics
        self.stopping = False  # True once `stop` has told the readers to end

    def stop(self) -> None:
        """End all streams."""
        self.stopping = True
        self.tail.wake()

    async def close(self) -> None:
        """End all streams."""
        self.stop()

    async def follow(self, thread: ThreadKey, after: EventId | None, replay: str, still: Still) -> Following:
        """Begin to follow a thread. Raises BrokerError, and Problem if `after` doesn't exist."""
        await self.tail.ready()
        partition = self.tail.partition_of(thread.thread_id)
        recent = self.tail.recent
        if after is not None:
            await self._check(after, partition, thread.tenant)
        runs = self.tail.runs_of(thread)
        stop = recent.position[partition]
        start, hidden = min((run.first for run in runs.values()), default=stop), set[str]()
        if after is not None:
            start = min(start, after.offset)
        elif replay != "recent":
            hidden = {run_id for run_id, run in runs.items() if replay == "none" or run.ended}
        return Following(thread, partition, start, stop, Reading(after, hidden, stop), runs, still)

    async def records(
        self, following: Following, *, follow: bool, silence: float
    ) -> AsyncGenerator[Sequence[EventRecord]]:
        """Yield records of the thread, in order; an empty list after `silence` seconds.

        Ends when the gateway stops, and when the reader may not go on.
        """
        recent, partition, position = self.tail.recent, following.partition, following.start
        asked, ends = time.monotonic(), time.monotonic() + STREAM_SECONDS
        with self.metrics.in_progress(m.LIVE_READERS):
            async with self.tail.heard(following.thread) as news:
                while not self.stopping and time.monotonic() < ends:
                    if time.monotonic() - asked > RECHECK_INTERVAL:
                        if not await following.still():
                            return
                        asked = time.monotonic()
                    news.clear()
                    if position >= recent.floor[partition]:
                        records = recent.since(following.thread, position)
                        position = recent.position[partition]
                    else:
                        records, position = await self.tail.page(
                            following.thread, partition, position, recent.position[partition]
                        )
                    for number, some in enumerate(portions(records, YIELD_RECORDS, DECODED_BYTES, attrgetter("size"))):
                        if number:  # the loop gets its turn, also where the reader is sent nothing of them
                            await asyncio.sleep(0)
                        yield some
                    if not records and position >= recent.position[partition]:
                        if not follow:
                            return
                        if not await _within(news, silence):
                            yield []

    async def at(self, following: Following, event_id: EventId) -> EventRecord | None:
        """Return the thread's record at a place; None if another thread's record is there. Raises BrokerError."""
        thread, partition, offset = following.thread, following.partition, event_id.offset
        if offset >= self.tail.recent.floor[partition]:
            records = self.tail.recent.since(thread, offset)
        else:
            records, _ = await self.tail.page(thread, partition, offset, offset + 1)
        return records[0] if records and records[0].offset == offset else None

    async def _check(self, after: EventId, partition: int, tenant: str | None) -> None:
        recent = self.tail.recent
        if after.partition != partition:
            raise Problem("bad-event-id", f"the thread's events are on partition {partition}, and {after} is not")
        if recent.floor[partition] <= after.offset < recent.position[partition]:
            return
        begin, end = await self.tail.span(partition, tenant)
        if after.offset >= end:
            raise Problem("bad-event-id", f"{after} is behind all that there is: the topic was made anew, perhaps")
        if after.offset < begin - 1:
            raise Problem("bad-event-id", f"what came after {after} is no longer on the topic: read the stored thread")


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Return True if the event is set within `seconds`. A timer is used, since it costs less than `asyncio.timeout`."""
    loop = asyncio.get_running_loop()
    over = loop.call_later(seconds, event.set)
    await event.wait()
    over.cancel()
    return loop.time() < over.when()
