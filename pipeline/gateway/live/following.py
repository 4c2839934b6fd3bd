"""Following a thread in the partitions that its records are in: recent ones from memory, others from the broker."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from pipeline.assembly.run_list import ListedRun
from pipeline.gateway.access.security import Still
from pipeline.gateway.live.event_record import EventRecord
from pipeline.gateway.live.follower import YIELD_RECORDS
from pipeline.gateway.live.recent_events import EventId, Position, Reading
from pipeline.gateway.live.tail import EventTail
from pipeline.gateway.problems import Problem
from pipeline.gateway.state import Service
from pipeline.kafka.reading import portions
from pipeline.observability import metrics as m
from topics.thread_key import ThreadKey
from turnmill.limits import DECODED_BYTES

STREAM_SECONDS: Final = 3600.0  # seconds until a stream ends, to be resumed
RECHECK_INTERVAL: Final = 5.0  # seconds between two checks that the reader may go on


@dataclass(slots=True)
class Following:
    """What a reader follows: a thread's records, in some partitions from the offsets `starts` on.

    `stops` are the ends of all partitions when the reader came; `still` returns whether it may go on. `again`: why it
    can't, and must begin again without an id.
    """

    thread: ThreadKey
    starts: dict[int, int]
    stops: dict[int, int]
    reading: Reading
    runs: dict[str, ListedRun]
    still: Still
    again: str | None = None


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

    async def follow(self, thread: ThreadKey, after: Sequence[EventId], replay: str, still: Still) -> Following:
        """Begin to follow a thread, behind the places `after`.

        The reader must begin again if the thread may have had records in partitions that they don't name, before those
        that the gateway knows of. Raises BrokerError, and Problem if one of the places doesn't exist.
        """
        await self.tail.ready()
        for place in after:
            await self._check(place, thread.tenant)
        runs, stops = self.tail.runs_of(thread), dict(self.tail.recent.position)
        starts, hidden = first_places(runs.values()), set[str]()
        if not after and replay != "recent":
            hidden = {run_id for run_id, run in runs.items() if replay == "none" or not self.tail.is_open(run)}
        unnamed = starts.keys() - {place.partition for place in after}
        for place in after:
            starts[place.partition] = min(place.offset, starts.get(place.partition, place.offset))
        following = Following(thread, starts, stops, Reading(after, hidden, stops), runs, still)
        if after and unnamed and not await self._is_recent(following, after[0]):
            following.again = "the thread goes on in other partitions of the topic"
        return following

    async def records(
        self, following: Following, *, follow: bool, silence: float
    ) -> AsyncGenerator[Sequence[EventRecord]]:
        """Yield records of the thread, in order; an empty list after `silence` seconds.

        Ends when the gateway stops, and when the reader may not go on, or must begin again.
        """
        recent, tail, clock = self.tail.recent, self.tail, asyncio.get_running_loop()
        position = Position({**following.stops, **following.starts})
        asked, ends, begun, late = time.monotonic(), time.monotonic() + STREAM_SECONDS, 0, None
        with self.metrics.in_progress(m.LIVE_READERS):
            async with self.tail.heard(following.thread) as news:
                said, quiet = clock.time(), _Quiet(news, silence)
                while not self.stopping and not following.again and time.monotonic() < ends:
                    if time.monotonic() - asked > RECHECK_INTERVAL:
                        if not await following.still():
                            return
                        asked = time.monotonic()
                    news.clear()
                    # Else no record that it has not read has left the memory since: all partitions need no look.
                    if late is not None or position.read <= recent.dropped or begun != recent.begun:
                        if any(at > recent.position.get(number, -1) for number, at in position.offsets.items()):
                            following.again = "the topic was made anew"
                            return
                        late, begun = tail.behind(following.thread, position, following.starts), recent.begun
                    if late is None:
                        records = recent.since(following.thread, position)
                    else:
                        begin, position.read = position.offsets.get(late, 0), 0
                        records, position.offsets[late] = await tail.page(
                            following.thread, late, begin, recent.position[late]
                        )
                    for number, some in enumerate(portions(records, YIELD_RECORDS, DECODED_BYTES, attrgetter("size"))):
                        if number:  # the loop gets its turn, also where the reader is sent nothing of them
                            await asyncio.sleep(0)
                        yield some
                        said = clock.time()
                    if late is None and not news.is_set():  # nothing has come since it was cleared
                        if not follow:
                            return
                        await news.wait()
                    if quiet.over:
                        if (left := said + silence - clock.time()) <= 0:
                            said, left = clock.time(), silence
                            yield []
                        quiet.begin(left)

    async def at(self, following: Following, place: EventId) -> EventRecord | None:
        """Return the thread's record at a place; None if another thread's record is there. Raises BrokerError."""
        if place.offset >= self.tail.recent.floor[place.partition]:
            return self.tail.recent.at(following.thread, place)
        records, _ = await self.tail.page(following.thread, place.partition, place.offset, place.offset + 1)
        return records[0] if records else None

    async def _is_recent(self, following: Following, place: EventId) -> bool:
        """Return True if the gateway knows of all runs that went on behind a place."""
        if place.offset >= self.tail.recent.floor[place.partition]:
            return True
        record = await self.at(following, place)
        return record is not None and self.tail.within_window(record.at)

    async def _check(self, after: EventId, tenant: str | None) -> None:
        recent, partition = self.tail.recent, after.partition
        if partition not in recent.position:
            raise Problem("bad-event-id", f"{after} is on no partition of the topic: it was made anew, perhaps")
        if recent.floor[partition] <= after.offset < recent.position[partition]:
            return
        begin, end = await self.tail.span(partition, tenant)
        if after.offset >= end:
            raise Problem("bad-event-id", f"{after} is behind all that there is: the topic was made anew, perhaps")
        if after.offset < begin - 1:
            raise Problem("bad-event-id", f"what came after {after} is no longer on the topic: read the stored thread")


def first_places(runs: Iterable[ListedRun]) -> dict[int, int]:
    """Return by partition the first offset of any of these runs."""
    firsts: dict[int, int] = {}
    for run in runs:
        for partition, first in run.firsts.items():
            firsts[partition] = min(first, firsts.get(partition, first))
    return firsts


class _Quiet:
    """A timer that sets an event, for many waits: a timer for each costs as much as the rest of the wait."""

    def __init__(self, event: asyncio.Event, seconds: float) -> None:
        self._event = event
        self.begin(seconds)

    def begin(self, seconds: float) -> None:
        """Set the event after so many seconds."""
        self.over = False
        asyncio.get_running_loop().call_later(seconds, self._end)

    def _end(self) -> None:
        self.over = True
        self._event.set()
