"""The spilled runs of a partition. Parked ones are packed: a worker may have a million of them."""

from array import array
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from struct import Struct
from typing import Final

import orjson

from pipeline.assembly.limits import Limits
from pipeline.assembly.parking import ENDS, STREAM_ENDS, OutlinedSegment
from pipeline.assembly.segment_names import NAME, SegmentNames, packed_key
from pipeline.assembly.spilled_run import SpilledRun, in_order
from topics.state import Clocks, RunKey

# Its earliest deadline, its times (opened, last record, end of its stream), the offset of its last record and that up
# to which its events were read, the number of its events, their weight, its revision, the number of its segments, the
# indexes of its ends in ENDS and STREAM_ENDS; behind them the NAMEs of its segments, its dialect and agent.
PACKED: Final = Struct("<qqqqqqqqIIBB")
NEVER: Final = -1
BETWEEN: Final = b"\0"  # a dialect and an agent; no dialect's name has it
TAKES: Final = 190  # bytes of memory of a packed run, beyond its key and its values
SPAN_MS: Final = 250  # deadlines so near to each other are looked at together


class SpilledRuns(Mapping[RunKey, SpilledRun]):
    """The spilled runs by their keys, and their deadlines; `weight`: the memory that they take, in bytes.

    A packed run is unpacked each time that it is asked for: what is done to it lasts when it is put in again.
    """

    def __init__(self, limits: Limits, segments: SegmentNames) -> None:
        self.limits = limits
        self.segments = segments
        segments.aside = lambda name: _names(self._packed[name]) if name in self._packed else b""
        self.weight = 0
        self.whole: dict[RunKey, SpilledRun] = {}  # those that are not packed
        self._packed: dict[bytes, bytes] = {}
        self._due: dict[int, dict[RunKey | bytes, None]] = {}  # by their deadlines, in spans
        self._spans: list[int] = []  # a heap of the keys of `_due`

    def __len__(self) -> int:
        return len(self.whole) + len(self._packed)

    def __iter__(self) -> Iterator[RunKey]:
        yield from self.whole
        for name in self._packed:
            yield RunKey(*orjson.loads(name))

    def __contains__(self, key: object) -> bool:
        return key in self.whole or (bool(self._packed) and isinstance(key, RunKey) and packed_key(key) in self._packed)

    def __getitem__(self, key: RunKey) -> SpilledRun:
        spilled = self.whole.get(key)
        return _unpacked(key, self._packed[packed_key(key)]) if spilled is None else spilled

    def put(self, key: RunKey, spilled: SpilledRun) -> None:
        """Add a run that is not among them."""
        spilled.due = due = spilled.due_at(self.limits)
        name = packed_key(key) if spilled.read is not None else b""
        names = self.segments.take(name) if name else b""
        value = _packed(spilled, names) if name else None
        if value is None:
            self.whole[key] = spilled
            self.weight += spilled.weight
            if names:
                self.segments.give(name, names)
        else:
            self._packed[name] = value
            self.weight += _weight(name, value)
        span = due // SPAN_MS
        if span not in self._due:
            self._due[span] = {}
            heappush(self._spans, span)
        self._due[span][key if value is None else name] = None

    def remove(self, key: RunKey) -> None:
        """Remove a run. Raises KeyError if it is not among them."""
        spilled, name = self.whole.pop(key, None), b""
        if spilled is None:
            name = packed_key(key)
            value = self._packed.pop(name)
            self.weight -= _weight(name, value)
            self.segments.give(name, _names(value))
            due = PACKED.unpack_from(value)[0]
        else:
            self.weight -= spilled.weight
            due = spilled.due
        self._due.get(due // SPAN_MS, {}).pop(name or key, None)

    def weigh(self) -> None:
        """Look how much memory the runs take that are not packed, if they have grown much since that was last known."""
        for spilled in self.whole.values():
            if spilled.run is not None and spilled.read is None:
                spilled.run.weigh()
                self.weight += spilled.run.weight - spilled.weight
                spilled.weight = spilled.run.weight

    def due(self, now: int) -> list[RunKey]:
        """Return the runs whose deadline may have passed at `now` (broker ms); each is returned once.

        So that time costs what is due, and not what is open. A run that proves not to be due is to be put in again.
        """
        names: list[RunKey | bytes] = []
        while self._spans and self._spans[0] * SPAN_MS < now:
            names += self._due.pop(heappop(self._spans))
        return [name if isinstance(name, RunKey) else RunKey(*orjson.loads(name)) for name in names]


def _packed(spilled: SpilledRun, names: bytes) -> bytes | None:
    """Return a parked run in few bytes; None if it waits for missing events, or it can't be followed."""
    run = spilled.run
    if run is not None:
        if run.early or run.beyond is not None or (run.seen is not None and run.seen != set(range(run.next))):
            return None
        builder = run.builder
        stream = STREAM_ENDS.index("complete" if builder.ended == "complete" else "aborted" if builder.ended else None)
        last, size, count, end = run.last_offset, run.size, run.next, ENDS.index(run.end)
        dialect, agent_id = builder.context.dialect, builder.context.agent_id
    else:
        last = size = count = end = stream = 0
        dialect = agent_id = ""
        for segment in sorted(spilled.segments, key=in_order):
            if not isinstance(segment, OutlinedSegment):
                return None
            for seq, more, weighs, ends, streams in zip(*[iter(segment.numbers)] * 5, strict=True):
                if seq != count or end:
                    return None
                dialect, agent_id = dialect or segment.head["dialect"], agent_id or segment.head["agent_id"]
                count, size, end, stream = count + more, size + weighs, ends, streams or stream
            last = max(last, segment.last_offset)
        if not dialect:
            return None
    ended = NEVER if spilled.ended_at is None else spilled.ended_at
    times = spilled.due, spilled.opened_at, spilled.last_at, ended
    numbers = last, spilled.read, count, size, spilled.revision, len(names) // NAME.size, end, stream
    return b"".join((PACKED.pack(*times, *numbers), names, dialect.encode(), BETWEEN, agent_id.encode()))


def _unpacked(key: RunKey, value: bytes) -> SpilledRun:
    """Return a packed run as the outline of a single record."""
    _, opened, at, ended, last, read, count, size, revision, stored, end, stream = PACKED.unpack_from(value)
    dialect, _, agent_id = value[PACKED.size + NAME.size * stored :].partition(BETWEEN)
    head = {"dialect": dialect.decode(), "agent_id": agent_id.decode(), "ts": opened, **key._asdict()}
    numbers, clocks = array("q", (0, count, size, end, stream)), Clocks(opened)
    outlined = OutlinedSegment(last, last, at, 0, clocks, read, size, head, numbers)
    ended_at = None if ended == NEVER else ended
    return SpilledRun([outlined], at, opened, revision, size, _weight(b"", value), ended_at=ended_at, read=read)


def _names(value: bytes) -> bytes:
    """Return the NAMEs of a packed run's segments."""
    return value[PACKED.size : PACKED.size + NAME.size * PACKED.unpack_from(value)[9]]


def _weight(name: bytes, value: bytes) -> int:
    return TAKES + len(name) + len(value)
