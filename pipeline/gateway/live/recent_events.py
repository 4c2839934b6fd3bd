"""The recent records of the events topic, as live streams read them. Pure: no client, no clock.

`Recent` holds the newest records that the tail has read, by thread, bounded in bytes. The key of a thread is its id and
its tenant, so records of two tenants never mix, even with the same id.
A thread's records may be in any partitions, so a reader has a `Position` in each: from `floor` on it reads from memory,
before that from the broker. `Reading` turns records into events, each seq of a run once, even if a record is repeated.
`InOrder` returns the frames of one run in the order of their seq, whatever order they arrive in.
"""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

from pipeline.gateway.live.event_record import Envelope, EventRecord
from pipeline.policies.pools import FRESH, RECENT
from topics.thread_key import ThreadKey
from turnmill.remembered import Remembered

EVENT_ID: Final = re.compile(r"([0-9]{1,6})-([0-9]{1,18})\.([0-9]{1,9})", re.ASCII)
LAST_INDEX: Final = 999_999_999  # an index after all events of a record
OVERHEAD: Final = 300  # bytes of memory that a frame takes in addition to its data


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """An event's place, and its id on a live stream: `PARTITION-OFFSET.INDEX`; a run's `end` comes after its events."""

    partition: int
    offset: int
    index: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the place, None if the text is malformed."""
        match = EVENT_ID.fullmatch(text)
        return cls(*map(int, match.groups())) if match else None

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}.{self.index}"


def places_of(text: str) -> list[EventId] | None:
    """Return the places in an id: of the event, then of what the reader had in other partitions; None if malformed."""
    places = [EventId.parse(part) for part in text.split(",")]
    named = [place for place in places if place is not None]
    return named if len(named) == len(places) == len({place.partition for place in named}) else None


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """One event of a run, or its end (then `event` is None)."""

    event_id: EventId
    envelope: Envelope
    seq: int
    ts: int  # epoch ms, by the publisher
    event: Any
    end: str | None = None


@dataclass(slots=True)
class Ranges:
    """Numbers that were seen, as ranges [start, stop) in order."""

    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)

    def add(self, start: int, count: int) -> list[int]:
        """Add start … start+count-1, and return those that are new."""
        stop = start + count
        if self.stops and self.stops[-1] == start:  # nearly always: they continue the last range
            self.stops[-1] = stop
            return list(range(start, stop))
        first = bisect_left(self.stops, start)
        last = first
        new: list[int] = []
        at = start
        while last < len(self.starts) and self.starts[last] <= stop:
            new += range(at, min(self.starts[last], stop))
            at = max(at, self.stops[last])
            last += 1
        new += range(at, stop)
        if first < last:
            start, stop = min(start, self.starts[first]), max(stop, self.stops[last - 1])
        self.starts[first:last], self.stops[first:last] = [start], [stop]
        return new


@dataclass(slots=True)
class Seen:
    """The events of one run that a reader was given."""

    events: Ranges = field(default_factory=Ranges)
    ends: set[tuple[int, str]] = field(default_factory=set)


class Reading:
    """Turns records of one thread, each partition's in order, into events, each once.

    The result depends on the records alone, so it is the same on every gateway. `after`: of the partitions that it
    names, return only events after these places; records before them are read all the same, to recognise duplicates.
    `hidden`: runs whose records before the partition's offset in `until` are skipped.
    """

    def __init__(
        self, after: Sequence[EventId] = (), hidden: Collection[str] = (), until: Mapping[int, int] | None = None
    ) -> None:
        self._after = {place.partition: place for place in after}
        self._hidden = hidden
        self._until = until or {}
        self._seen: dict[str, Seen] = {}
        self.given = dict(self._after)  # by partition, the last place that the reader is done with

    def id_of(self, place: EventId) -> str:
        """Return the id with which a reader resumes behind a place: with the places in the other partitions."""
        others = sorted(other for partition, other in self.given.items() if partition != place.partition)
        return ",".join(map(str, (place, *others)))

    def events(self, record: EventRecord) -> list[LiveEvent]:
        """Return the new events in a record."""
        envelope = record.envelope
        if envelope is None:
            return []
        seen = self._seen.setdefault(envelope["run_id"], Seen())
        seq, events, ts = envelope["seq"], envelope["events"], envelope["ts"]
        dt = envelope.get("dt") or [0] * len(events)
        new_events = [
            LiveEvent(EventId(record.partition, record.offset, n - seq), envelope, n, ts + dt[n - seq], events[n - seq])
            for n in (seen.events.add(seq, len(events)) if events else ())
        ]
        end, over = envelope.get("end"), seq + len(events)
        if end is not None and (over, end) not in seen.ends:
            seen.ends.add((over, end))
            event_id = EventId(record.partition, record.offset, len(events))
            new_events.append(LiveEvent(event_id, envelope, over, ts + (dt[-1] if dt else 0), None, end))
        partition = record.partition
        after, done = self._after.get(partition), EventId(partition, record.offset, LAST_INDEX)
        if partition not in self.given or self.given[partition] < done:
            self.given[partition] = done
        if envelope["run_id"] in self._hidden and record.offset < self._until.get(partition, 0):
            return []
        return new_events if after is None else [event for event in new_events if event.event_id > after]


@dataclass(slots=True)
class Position:
    """How far a reader is.

    `offsets`: the next one of each partition; 0 for a partition that came later. `read`: how many of the records that
    were ever in memory it has passed.
    """

    offsets: dict[int, int]
    read: int = 0

    def needs(self, record: EventRecord) -> bool:
        """Return True if the record was not read yet."""
        return record.offset >= self.offsets.get(record.partition, 0)


class Recent:
    """The recent records of the topic. `most`: the limit in bytes."""

    def __init__(self, most: int) -> None:
        self._records: Remembered[int, tuple[ThreadKey, EventRecord]] = Remembered(RECENT, _size, most)
        self._fresh: Remembered[int, tuple[ThreadKey, EventRecord]] = Remembered(FRESH, _size)
        self._threads: dict[ThreadKey, deque[EventRecord]] = {}
        self.added = 0  # records, ever
        self.dropped = 0  # the number of the newest record that had to make room
        self.begun = 0  # how often a partition was begun
        self.floor: dict[int, int] = {}  # partition -> offset; all records from here to `position` are in memory
        self.position: dict[int, int] = {}  # partition -> the next offset to read

    def begin(self, partition: int, offset: int) -> None:
        """Begin to read a partition at an offset; drop its records in memory."""
        self._forget(partition)
        self.begun += 1
        self.floor[partition] = self.position[partition] = offset

    def add(self, record: EventRecord) -> ThreadKey | None:
        """Add the next record of its partition, and return its thread."""
        partition = record.partition
        if record.offset < self.position[partition]:  # the topic was created again
            self.begin(partition, record.offset)
        self.position[partition] = record.offset + 1
        thread = record.thread
        if thread is None:
            return None
        self.added += 1
        record.number = self.added
        self._threads.setdefault(thread, deque()).append(record)
        for _, fresh in self._fresh.put("", record.number, (thread, record)):
            fresh.pack()
        for of, dropped in self._records.put("", record.number, (thread, record)):
            self._threads[of].popleft()
            if not self._threads[of]:
                del self._threads[of]
            self.floor[dropped.partition], self.dropped = dropped.offset + 1, dropped.number
        return thread

    @property
    def bytes(self) -> int:
        """The bytes of the records."""
        return self._records.shares.total

    def since(self, thread: ThreadKey, position: Position) -> list[EventRecord]:
        """Return the thread's unread records, and move the position behind all that is in memory.

        None of them may be before the floor of its partition.
        """
        records: list[EventRecord] = []
        for record in reversed(self._threads.get(thread, ())):
            if record.number <= position.read:
                break
            if position.needs(record):
                records.append(record)
        records.reverse()
        if not position.read:  # the past was read partition by partition
            records.sort(key=attrgetter("at"))
        position.offsets, position.read = dict(self.position), self.added
        return records

    def at(self, thread: ThreadKey, place: EventId) -> EventRecord | None:
        """Return the thread's record at a place; None if none of it is there."""
        held = (record for record in self._threads.get(thread, ()) if record.partition == place.partition)
        return next((record for record in held if record.offset == place.offset), None)

    def _forget(self, partition: int) -> None:
        for thread, held in list(self._threads.items()):
            if rest := deque(record for record in held if record.partition != partition):
                self._threads[thread] = rest
            else:
                del self._threads[thread]
            for record in held:
                if record.partition == partition:
                    self._records.pop("", record.number)


def _size(of: tuple[ThreadKey, EventRecord]) -> int:
    return of[1].size


class Frame(NamedTuple):
    """One event as it is sent; `last`: events of its kind usually end a run."""

    seq: int
    data: bytes
    last: bool = False


class InOrder:
    """Returns the frames in the order of their seq, from `seq` on.

    Frames that come too early wait, in at most `most` bytes. Beyond that, missing ones are skipped: a reader can't wait
    for ever for frames that may never come.
    """

    def __init__(self, seq: int, most: int) -> None:
        self._next = seq
        self._most = most
        self._waiting: list[Frame] = []  # a heap
        self.size = 0  # bytes in memory

    def take(self, frame: Frame) -> list[Frame]:
        """Return the frames that are due now; each seq is returned once."""
        if frame.seq < self._next:
            return []
        heappush(self._waiting, frame)
        self.size += len(frame.data) + OVERHEAD
        due = self._ready()
        while self.size > self._most:
            self._next = self._waiting[0].seq
            due += self._ready()
        return due

    def rest(self) -> list[Frame]:
        """Return all waiting frames, since no more will come."""
        frames: list[Frame] = []
        while self._waiting:
            self._next = self._waiting[0].seq
            frames += self._ready()
        return frames

    def _ready(self) -> list[Frame]:
        frames: list[Frame] = []
        while self._waiting and self._waiting[0].seq <= self._next:
            frame = heappop(self._waiting)
            self.size -= len(frame.data) + OVERHEAD
            if frame.seq == self._next:
                frames.append(frame)
                self._next += 1
        return frames
