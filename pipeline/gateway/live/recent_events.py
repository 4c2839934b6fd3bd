"""The recent records of the events topic, as live streams read them. Pure: no client, no clock.

`Recent` holds what the tail has read: the newest records by thread, bounded in bytes, and for each run of the last
hour where it began. A thread is its id and its tenant, so records of two tenants never meet, though they have one id.
A reader has a position in its thread's partition; from `floor` on it reads from memory, before that from the broker.
`Reading` makes events of records: each seq of a run once, whatever comes twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Self

from topics.thread_key import ThreadKey
from turnmill.envelope import decode
from turnmill.errors import InvalidRecord

PLACE: Final = re.compile(r"([0-9]{1,6})-([0-9]{1,18})\.([0-9]{1,9})", re.ASCII)
RUN_BYTES: Final = 134_217_728  # of memory for the runs that are remembered
PER_RUN, PER_CHARACTER = 500, 4  # bytes of memory that such a run takes, and each character of its names
PER_RECORD = 600  # bytes of memory that a record takes beside its value
FRESH: Final = 1_000  # newest records that are held decoded as well, for those who read along

Envelope = dict[str, Any]
Said = dict[tuple[int, bool], bytes]  # (index of an event, whether with what it shows) -> its frame

NOTHING: Final[Said] = {}  # of all records that are not fresh


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """An event's place, and its id on a live stream: `PARTITION-OFFSET.INDEX`; a run's `end` is behind its events."""

    partition: int
    offset: int
    index: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """-> the place, None where the text is none."""
        match = PLACE.fullmatch(text)
        return cls(*map(int, match.groups())) if match else None

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}.{self.index}"


class Held:
    """One record of the events topic.

    What is held for long is its bytes: decoded it takes six times as much memory, in objects that the garbage
    collector looks through again and again, while everybody waits.
    """

    __slots__ = ("_envelope", "_value", "at", "fresh", "offset", "partition", "said")

    def __init__(self, partition: int, offset: int, at: int, value: bytes | None) -> None:
        """A record as it was read; `at`: broker ms."""
        self.partition = partition
        self.offset = offset
        self.at = at
        self.fresh = True
        self.said: Said = {}  # while it is fresh: what readers were sent of it
        self._value = value
        self._envelope: Envelope | None = None  # while it is fresh

    @property
    def size(self) -> int:
        """In memory, about."""
        return PER_RECORD + len(self._value or b"")

    @property
    def envelope(self) -> Envelope | None:
        """None where it is none."""
        if self._envelope is not None or self._value is None:
            return self._envelope
        try:
            envelope = decode(self._value)
        except InvalidRecord:  # a dead letter, as the assembler will say
            self._value = None
            return None
        if self.fresh:
            self._envelope = envelope
        return envelope

    @property
    def thread(self) -> ThreadKey | None:
        """The thread that it names itself; None where it is no record."""
        envelope = self.envelope
        return None if envelope is None else ThreadKey.of(envelope["thread_id"], envelope.get("tenant"))

    def pack(self) -> None:
        """Keep the bytes alone from now on."""
        self.fresh = False
        self._envelope = None
        self.said = NOTHING


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """One event of a run, or its end (then `event` is None)."""

    place: Place
    envelope: Envelope
    seq: int
    ts: int  # epoch ms, by the publisher
    event: Any
    end: str | None = None


@dataclass(slots=True)
class RunPlace:
    """Where a run began, as far back as was read, and how it is."""

    first: int  # offset
    last_at: int  # broker ms
    seq: int  # of its first record that was seen
    dialect: str
    over: bool = False


@dataclass(slots=True)
class Ranges:
    """Numbers that were seen, as ranges [start, stop) in order."""

    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)

    def add(self, start: int, count: int) -> list[int]:
        """-> those of start … start+count-1 that are new; they are seen now."""
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
    """What a reader was given of one run."""

    events: Ranges = field(default_factory=Ranges)
    ends: set[tuple[int, str]] = field(default_factory=set)


class Reading:
    """Records of one thread in the order of the partition -> its events, each once.

    What it gives is a function of the records alone, so every gateway gives the same. `after`: only what is behind
    this place, though all before it is read, to know what is a duplicate. `hidden`: runs whose records before `until`
    are not given.
    """

    def __init__(self, after: Place | None = None, hidden: Collection[str] = (), until: int = 0) -> None:
        self._after = after
        self._hidden = hidden
        self._until = until
        self._seen: dict[str, Seen] = {}

    def events(self, record: Held) -> list[LiveEvent]:
        """-> what is new in a record."""
        envelope = record.envelope
        if envelope is None:
            return []
        seen = self._seen.setdefault(envelope["run_id"], Seen())
        seq, events, ts = envelope["seq"], envelope["events"], envelope["ts"]
        dt = envelope.get("dt") or [0] * len(events)
        found = [
            LiveEvent(Place(record.partition, record.offset, n - seq), envelope, n, ts + dt[n - seq], events[n - seq])
            for n in (seen.events.add(seq, len(events)) if events else ())
        ]
        end, over = envelope.get("end"), seq + len(events)
        if end is not None and (over, end) not in seen.ends:
            seen.ends.add((over, end))
            place = Place(record.partition, record.offset, len(events))
            found.append(LiveEvent(place, envelope, over, ts + (dt[-1] if dt else 0), None, end))
        if envelope["run_id"] in self._hidden and record.offset < self._until:
            return []
        return found if self._after is None else [event for event in found if event.place > self._after]


class Recent:
    """What the tail has read. `most`: bytes of records that are held."""

    def __init__(self, most: int, window_ms: int) -> None:
        self._most = most
        self._window = window_ms
        self._threads: dict[ThreadKey, deque[Held]] = {}
        self._order: deque[tuple[ThreadKey, Held]] = deque()
        self._fresh: deque[Held] = deque()
        self._runs: OrderedDict[tuple[ThreadKey, str], RunPlace] = OrderedDict()  # the longest silent first
        self._of_thread: dict[ThreadKey, dict[str, RunPlace]] = {}
        self._of_id: dict[str, set[ThreadKey]] = {}  # thread id -> the keys of `_of_thread` that have it
        self._run_bytes = 0  # of `_runs`, about
        self._now = 0  # broker ms of the newest record
        self.bytes = 0
        self.floor: dict[int, int] = {}  # partition -> all of its records from here to `position` are held
        self.position: dict[int, int] = {}  # partition -> the offset that comes next

    def begin(self, partition: int, offset: int) -> None:
        """A partition will be read from here."""
        self.floor[partition] = self.position[partition] = offset

    def add(self, record: Held) -> ThreadKey | None:
        """Take the next record of its partition. -> the thread that it is of."""
        partition = record.partition
        if record.offset < self.position[partition]:  # the topic was made anew
            self._forget(partition)
            self.begin(partition, record.offset)
        self.position[partition] = record.offset + 1
        self._now = max(self._now, record.at)
        thread = record.thread
        if thread is None or record.envelope is None:
            return None
        self._index(thread, record.envelope, record)
        self._threads.setdefault(thread, deque()).append(record)
        self._order.append((thread, record))
        self._fresh.append(record)
        if len(self._fresh) > FRESH:
            self._fresh.popleft().pack()
        self.bytes += record.size
        while self.bytes > self._most:
            self._drop()
        return thread

    def since(self, thread: ThreadKey, offset: int) -> list[Held]:
        """The thread's records from `offset` on, which must not be before the floor of its partition."""
        found: list[Held] = []
        for record in reversed(self._threads.get(thread, ())):
            if record.offset < offset:
                break
            found.append(record)
        found.reverse()
        return found

    def runs(self, thread: ThreadKey) -> dict[str, RunPlace]:
        """The runs of a thread that were heard of lately: by id, in the order in which they began."""
        found = self._of_thread.get(thread, {})
        return dict(sorted(found.items(), key=lambda item: item[1].first))

    def threads(self, thread_id: str) -> frozenset[ThreadKey]:
        """The threads with this id that were heard of lately: one for each tenant that uses it."""
        return frozenset(self._of_id.get(thread_id, ()))

    def _index(self, thread: ThreadKey, envelope: Envelope, record: Held) -> None:
        key = thread, envelope["run_id"]
        run = self._runs.get(key)
        if run is None:
            run = RunPlace(record.offset, record.at, envelope["seq"], envelope["dialect"])
            self._run_bytes += _size(key)
            self._runs[key] = self._of_thread.setdefault(thread, {})[key[1]] = run
            self._of_id.setdefault(thread.thread_id, set()).add(thread)
        run.seq = min(run.seq, envelope["seq"])
        run.last_at = record.at
        run.over = envelope.get("end") is not None
        self._runs.move_to_end(key)
        while self._runs:
            oldest, silent = next(iter(self._runs.items()))
            if self._run_bytes <= RUN_BYTES and silent.last_at >= self._now - self._window:
                return
            self._forget_run(oldest)

    def _forget_run(self, key: tuple[ThreadKey, str]) -> None:
        thread, run_id = key
        del self._runs[key]
        self._run_bytes -= _size(key)
        runs = self._of_thread[thread]
        del runs[run_id]
        if not runs:
            del self._of_thread[thread]
            of_id = self._of_id[thread.thread_id]
            of_id.discard(thread)
            if not of_id:
                del self._of_id[thread.thread_id]

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
            for run_id in list(self._of_thread.get(thread, ())):
                self._forget_run((thread, run_id))
        self._order = deque(item for item in self._order if item[1].partition != partition)
        self.bytes = sum(record.size for _, record in self._order)


def _size(key: tuple[ThreadKey, str]) -> int:
    thread, run_id = key
    return PER_RUN + PER_CHARACTER * (len(thread.thread_id) + len(thread.tenant or "") + len(run_id))


def first_offset(runs: Iterable[RunPlace], otherwise: int) -> int:
    """Where the first of these runs began."""
    return min((run.first for run in runs), default=otherwise)
