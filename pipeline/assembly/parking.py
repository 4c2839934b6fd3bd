"""Parked runs: they are followed by the numbers of their events alone, so that they take no memory.

All records of a parked run are on the state topic, and are read from there once it is over. Until then, its events are
checked only for the end of the stream; their telemetry and dead letters are delayed, too.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Dialect, StreamEnd
from pipeline.assembly.parts import Context
from pipeline.assembly.weight import structure, weight
from topics.json_text import Fields
from topics.state import Clocks, Segment
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import ENDS as envelope_ends  # noqa: N811  # as this module has ENDS, with None
from turnmill.wire.envelope import decode
from turnmill.wire.registry import Wire

STREAM_ENDS: Final[tuple[StreamEnd | None, ...]] = (None, "complete", "aborted")
ENDS: Final = (None, *sorted(envelope_ends))
NAMES: Final = ("thread_id", "run_id", "agent_id", "dialect", "ts", "tenant")


class Outline(dict[str, Any]):
    """An envelope without its events, in place of which it has a range of the same length.

    `weight`: of its record; `ended`: how the stream has ended, if it stops after them; None: it goes on.
    """

    __slots__ = ("ended", "weight")

    def __init__(self, head: Fields, count: int, weighs: int, ended: StreamEnd | None) -> None:
        super().__init__(head, events=range(count))
        self.weight = weighs
        self.ended = ended


@dataclass(frozen=True, slots=True)
class OutlinedSegment:
    """A segment of the state topic without its records. Fields as of `Segment`; `size`: bytes of its records.

    `head`: the fields that its envelopes have in common; `numbers`: five for each of them: the seq of its first event,
    the number of events, the weight, and the indexes of its `end` in ENDS and of its stream's end in STREAM_ENDS.
    """

    first_offset: int
    last_offset: int
    at: int
    part: int
    clocks: Clocks
    read: int | None
    size: int
    head: Fields
    numbers: array[int]

    def outlines(self) -> Iterator[Outline]:
        """Yield the outlines of its records, in their order."""
        numbers = iter(self.numbers)
        for seq, count, weighs, end, stream in zip(*[numbers] * 5, strict=True):
            yield Outline({**self.head, "seq": seq, "end": ENDS[end]}, count, weighs, STREAM_ENDS[stream])


def outline(envelope: Fields, size: int, dialect: Dialect) -> Outline:
    """Return the outline of an early record of `size` bytes; without NAMES, since it waits in its run."""
    events = envelope["events"]
    head = {"seq": envelope["seq"], "end": envelope.get("end")}
    return Outline(head, len(events), size + structure(events), _stream_end(events, dialect))


def outlined(segment: Segment, dialects: Mapping[str, Dialect]) -> OutlinedSegment:
    """Return the segment without its records.

    Unreadable records are left out; they become dead letters when the run is built.
    """
    head: Fields = {}
    numbers = array("q")
    for value in segment.records:
        with suppress(InvalidRecord):
            envelope = decode(value)
            events, end = envelope["events"], envelope.get("end")
            head = head or {name: envelope.get(name) for name in NAMES}
            weighs, dialect = weight(len(value), events, 0), dialects.get(envelope["dialect"])
            stream = _stream_end(events, dialect) if dialect is not None else None
            places = ENDS.index(end), STREAM_ENDS.index(stream)
            numbers.extend((envelope["seq"], len(events), weighs, *places))
    return OutlinedSegment(
        segment.first_offset,
        segment.last_offset,
        segment.at,
        segment.part,
        segment.clocks,
        segment.read,
        segment.size,
        head,
        numbers,
    )


def _stream_end(events: Iterable[Any], dialect: Dialect) -> StreamEnd | None:
    end: StreamEnd | None = None
    for event in events:
        end = dialect.ended(event, end)
    return end


def listening(dialect: Dialect) -> Dialect:
    """Return a dialect that only checks whether events end the stream."""
    ended = dialect.ended

    def listen(builder: Builder, event: Fields) -> None:
        before: StreamEnd | None = "complete" if builder.ended == "complete" else "aborted"
        builder.ended = ended(event, before if builder.ended is not None else None)

    return replace(dialect, handlers={}, stretches={}, deltas={}, unknown=listen, begin=lambda builder: None)


def unknown(name: str) -> Dialect:
    """Return a substitute for a dialect that only a newer worker knows."""
    return Dialect(name, Wire(), {}, lambda builder, event: None)


def bare(builder: Builder) -> Builder:
    """Return a builder of the same run that has only its names and the end of its stream."""
    of = builder.context
    context = Context(of.thread_id, of.run_id, of.agent_id, of.dialect)
    context.tenant, context.traceparent = of.tenant, of.traceparent
    made = Builder(context, builder.at)
    made.started = made.lossy = True  # an event that can't be read is refused when the run is built
    made.ended = builder.ended
    return made
