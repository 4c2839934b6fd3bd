"""The recent records of the events topic, as live streams read them. Pure: no client, no clock.

`Recent` holds what the tail has read: the newest records by thread, bounded in bytes. A thread is its id and its
tenant, so records of two tenants never meet, though they have one id.
A reader has a position in its thread's partition; from `floor` on it reads from memory, before that from the broker.
`Reading` makes events of records: each seq of a run once, whatever comes twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pipeline.gateway.event_record import Envelope, EventRecord
from topics.thread_key import ThreadKey
from turnmill.limits import DECODED_BYTES

PLACE: Final = re.compile(r"([0-9]{1,6})-([0-9]{1,18})\.([0-9]{1,9})", re.ASCII)
FRESH: Final = 1_000  # newest records that are held decoded as well, for those who read along


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """An event's place, and its id on a live stream: `PARTITION-OFFSET.INDEX`; a run's `end` is behind its events."""

    partition: int
    offset: int
    index: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the place, None where the text is none."""
        match = PLACE.fullmatch(text)
        return cls(*map(int, match.groups())) if match else None

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}.{self.index}"


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """One event of a run, or its end (then `event` is None)."""

    place: EventId
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
        """Return the new ones of start … start+count-1; they are seen now."""
        stop = start + count
        if self.stops and self.stops[-1] == start:  # nearly always: the next ones
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
    """Records of one thread in the order of the partition -> its events, each once.

    What it gives is a function of the records alone, so every gateway gives the same. `after`: only what is behind
    this place, though all before it is read, to know what is a duplicate. `hidden`: runs whose records before `until`
    are not given.
    """

    def __init__(self, after: EventId | None = None, hidden: Collection[str] = (), until: int = 0) -> None:
        self._after = after
        self._hidden = hidden
        self._until = until
        self._seen: dict[str, Seen] = {}

    def events(self, record: EventRecord) -> list[LiveEvent]:
        """Return the new events in a record."""
        envelope = record.envelope
        if envelope is None:
            return []
        seen = self._seen.setdefault(envelope["run_id"], Seen())
        seq, events, ts = envelope["seq"], envelope["events"], envelope["ts"]
        dt = envelope.get("dt") or [0] * len(events)
        found = [
            LiveEvent(EventId(record.partition, record.offset, n - seq), envelope, n, ts + dt[n - seq], events[n - seq])
            for n in (seen.events.add(seq, len(events)) if events else ())
        ]
        end, over = envelope.get("end"), seq + len(events)
        if end is not None and (over, end) not in seen.ends:
            seen.ends.add((over, end))
            place = EventId(record.partition, record.offset, len(events))
            found.append(LiveEvent(place, envelope, over, ts + (dt[-1] if dt else 0), None, end))
        if envelope["run_id"] in self._hidden and record.offset < self._until:
            return []
        return found if self._after is None else [event for event in found if event.place > self._after]


class Recent:
    """The recent records of the topic. `most`: bytes of records that are held."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._threads: dict[ThreadKey, deque[EventRecord]] = {}
        self._order: deque[tuple[ThreadKey, EventRecord]] = deque()
        self._fresh: deque[EventRecord] = deque()
        self._fresh_bytes = 0
        self.bytes = 0
        self.floor: dict[int, int] = {}  # partition -> all of its records from here to `position` are held
        self.position: dict[int, int] = {}  # partition -> the offset that comes next

    def begin(self, partition: int, offset: int) -> None:
        """Begin to read a partition at an offset; records of it that are held are forgotten."""
        self._forget(partition)
        self.floor[partition] = self.position[partition] = offset

    def add(self, record: EventRecord) -> ThreadKey | None:
        """Take the next record of its partition. -> the thread that it is of."""
        partition = record.partition
        if record.offset < self.position[partition]:  # the topic was made anew
            self.begin(partition, record.offset)
        self.position[partition] = record.offset + 1
        thread = record.thread
        if thread is None:
            return None
        self._threads.setdefault(thread, deque()).append(record)
        self._order.append((thread, record))
        self._fresh.append(record)
        self._fresh_bytes += record.size
        while len(self._fresh) > FRESH or self._fresh_bytes > DECODED_BYTES:
            oldest = self._fresh.popleft()
            self._fresh_bytes -= oldest.size
            oldest.pack()
        self.bytes += record.size
        while self.bytes > self._most:
            self._drop()
        return thread

    def since(self, thread: ThreadKey, offset: int) -> list[EventRecord]:
        """Return the thread's records from `offset` on, which must not be before the floor of its partition."""
        found: list[EventRecord] = []
        for record in reversed(self._threads.get(thread, ())):
            if record.offset < offset:
                break
            found.append(record)
        found.reverse()
        return found

    def _drop(self) -> None:
        thread, record = self._order.popleft()
        self.bytes -= record.size
        held = self._threads[thread]
        held.popleft()
        if not held:
            del self._threads[thread]
        self.floor[record.partition] = record.offset + 1

    def _forget(self, partition: int) -> None:
        gone = [thread for thread, held in self._threads.items() if held[0].partition == partition]
        for thread in gone:
            del self._threads[thread]
        self._order = deque(item for item in self._order if item[1].partition != partition)
        self.bytes = sum(record.size for _, record in self._order)
