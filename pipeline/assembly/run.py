"""One run: which events it has seen, and the builder of its turns.

`seq` numbers a run's events without holes. Records may come twice, in other batches, or out of order: known events are
dropped and counted, early ones wait in a window until the hole before them is filled.
"""

import copy
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from pipeline.assembly.builder import Builder, End
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.expected_record import ExpectedRecord, expected_after, read_deltas
from pipeline.assembly.memory import taken
from pipeline.assembly.parking import Outline, bare, listening, outline
from pipeline.assembly.parts import Context
from pipeline.assembly.records import Envelope, Record, Refused, StoredRecord, refusal
from pipeline.assembly.sequence_window import SequenceWindow
from pipeline.assembly.weight import LARGE_RECORD, LIGHT, structure, weight
from turnmill.errors import InvalidRecord, Reason
from turnmill.wire import traceparent

BEGUN: Final = 4_000  # bytes of memory of a run that has just begun
AROUND: Final = 500  # of what is around a run: its key, and the containers that it is in
PER_RECORD: Final = 41  # of a record, beyond its bytes
WEIGH_GROWTH: Final = 1.25  # growth of its records until it is weighed again
MAX_WRONG_GUESSES: Final = 3  # wrong predictions of a run's next record in a row, after which no more are made


class Run:
    """One open run. `next` is the seq of the event that must come next; `end` is set when the run is over.

    `first_offset`: of the oldest raw record that is needed to build it again and is not spilled; `last_offset`: of its
    newest record, `last_at` the broker's time (ms) of it. `size`: the weight of all its records (see `weight`),
    `spilled`: of those on the state topic, `ahead`: of those that wait for earlier ones. `held`: bytes of memory of all
    but the records that are not spilled, as they were when its records weighed `weighed`.

    A run weighs at most `most`, counted in the order in which its records are applied, so the limit cuts it at the same
    record, however they arrive. `beyond`: this record and all that came after it; None before.

    `seen`: the seqs of the events of a wire that does not number them; `next` is the number of these events then. None:
    the wire numbers its events.

    `expected`: the form of its next record, if that only continues a text; set by `RunStates`.

    `read`: the offset up to which the events of a parked run were read, see `park`; None: it is not parked. `metered`:
    the value of `next` when its usage was last reported.
    """

    __slots__ = (
        "ahead",
        "beyond",
        "builder",
        "dialect",
        "duplicates",
        "early",
        "end",
        "ended_at",
        "expected",
        "first_offset",
        "gap_at",
        "guesses",
        "held",
        "last_at",
        "last_offset",
        "metered",
        "most",
        "next",
        "opened_at",
        "read",
        "refusals",
        "revision",
        "seen",
        "size",
        "spilled",
        "unspilled",
        "unspilled_at",
        "weighed",
    )

    def __init__(self, envelope: Envelope, dialect: Dialect, record: Record, most: int = sys.maxsize) -> None:
        context = Context(envelope["thread_id"].lower(), envelope["run_id"], envelope["agent_id"], dialect.name)
        context.tenant = envelope.get("tenant") or None  # the same in all its records, as part of the run's key
        if record.headers:
            context.traceparent = traceparent.of_headers(record.headers)
        self.builder = Builder(context, envelope["ts"])
        self.dialect = dialect
        self.next = 0
        self.seen: set[int] | None = set() if dialect.wire.unnumbered else None
        self.early = SequenceWindow()
        self.gap_at: int | None = None  # broker ms since when the hole before `early` has not been filled
        self.end: End | None = None
        self.ended_at: int | None = None  # broker ms of the stream's terminal event
        self.opened_at = self.last_at = record.timestamp
        self.first_offset = self.last_offset = record.offset
        self.unspilled: list[bytes] = []  # raw records since the last spill
        self.unspilled_at = record.timestamp  # broker ms of the first of them
        self.revision = 0
        self.most = most
        self.size = self.spilled = self.ahead = self.weighed = 0
        self.held = BEGUN
        self.beyond: list[Record] | None = None
        self.read: int | None = None
        self.metered = 0
        self.duplicates = 0
        self.refusals: list[Refused] = []
        self.expected: ExpectedRecord | None = None
        self.guesses = MAX_WRONG_GUESSES if read_deltas is not None else 0

    def knows(self, envelope: Envelope) -> bool:
        """Return True if a record has nothing new: its events and its `end` were applied, or wait already."""
        seq, count, end = envelope["seq"], len(envelope["events"]), envelope.get("end")
        if self.seen is not None:
            return self.seen.issuperset(range(seq, seq + count)) and (end is None or self.end is not None)
        if seq > self.next:
            return self.early.holds(envelope)
        if seq + count == self.next:
            return self.builder.started if end is None else self.end is not None
        return bool(seq + count < self.next)

    def misses(self, envelope: Envelope) -> bool:
        """Return True if a record has new events.

        If it has none, its `end` may be new. A reopened run has no `end`, so only the offset shows that the record is
        read again.
        """
        return bool(envelope["seq"] + len(envelope["events"]) > self.next)

    def feed(self, envelope: Envelope, record: Record) -> None:
        """Take a record, in any order; afterwards look at `end`, `ended_at`, `refusals`."""
        if self.knows(envelope):
            self.duplicates += len(envelope["events"])
        else:
            self.take(envelope, record)

    def take(self, envelope: Envelope, record: Record) -> None:
        """As `feed`, for a record that has something new."""
        self.last_at = max(self.last_at, record.timestamp)
        if self.seen is not None:
            self.seen.update(range(envelope["seq"], envelope["seq"] + len(envelope["events"])))
            envelope = copy.copy(envelope)
            envelope["seq"] = self.next
        if envelope["seq"] > self.next:
            if self.read is not None:
                envelope, record = self._without_events(envelope, record)
            held = self.early.get(envelope["seq"])
            self.early.put(envelope, record)
            added = _early_weight(*self.early[envelope["seq"]]) - (_early_weight(*held) if held is not None else 0)
            self.ahead += added
            self.size += added
            if self.gap_at is None:
                self.gap_at = record.timestamp
            return
        self._apply(envelope, record)
        while self.early and (due := self.early.take_due(self.next)) is not None:
            self.ahead -= _early_weight(*due)
            self.size -= _early_weight(*due)
            self._apply(*due)
        self.gap_at = record.timestamp if self.early else None

    def _apply(self, envelope: Envelope, record: Record) -> None:
        """Apply the events of a record that starts at or before `next`, unless the run exceeds its weight limit."""
        size, before = len(record.value or b""), self.size - self.ahead
        if envelope.__class__ is Outline:
            size = envelope.weight
        elif size > LARGE_RECORD or before + size > LIGHT:  # else its weight is its bytes
            size = weight(size, envelope["events"], before)
        self.size += size
        if before + size > self.most:
            self.beyond = [record, *(early for _, early in self.early.take_all())]
            return
        events, dt = envelope["events"], envelope.get("dt")
        seen = self.next - envelope["seq"]
        if seen:
            if seen > len(events):
                self.duplicates += len(events)
                return
            self.duplicates += seen
            events, dt = events[seen:], dt[seen:] if dt else None
        if envelope["seq"] == 0:  # the first record to come may not have been the run's first
            self.builder.context.agent_id = envelope["agent_id"]
        if envelope.get("run"):
            wrong = self.builder.context.learn(envelope["run"])
            if wrong:
                self._add_refusal(record, Reason.INVALID_EVENT, f"left out of `run`, for its type: {', '.join(wrong)}")
        if envelope.__class__ is Outline:
            self.next += len(events)
            self._end_stream(envelope.ended or self.builder.ended, record)
        else:
            self.apply_events(envelope["ts"], events, dt, record)
        if envelope.get("end") is not None:
            self.end = envelope["end"]

    def apply_events(self, ts: int, events: list[Any], dt: list[int] | None, record: Record) -> None:
        """Apply events that directly follow the previous ones. The hot path: a dictionary look-up and a call each."""
        builder, dialect = self.builder, self.dialect
        if not builder.started:
            builder.started = True
            builder.at = builder.began_at = builder.first_at = builder.last_at = ts
            try:
                dialect.begin(builder)
            except Exception as error:  # a hostile request body
                detail = error.detail if isinstance(error, InvalidRecord) else f"{type(error).__name__}: {error}"
                self._add_refusal(record, Reason.INVALID_EVENT, f"the run's request can't be read: {detail}")
        count = len(events)
        if count == 1:
            builder.at = at = ts if dt is None else ts + dt[0]
            event = events[0]
            try:
                wire = dialect.wire
                name = event.get(wire.kind) if wire.untyped else event[wire.kind]
                dialect.handlers.get(name, dialect.unknown)(builder, event)
            except Exception as error:  # whatever a hostile event does, it becomes one dead letter
                self._refuse_event(event, error, record)
        else:
            at = self._apply_many(ts, events, dt, record)
        self._pass(at, count, record)

    def _pass(self, at: int, count: int, record: Record) -> None:
        """Note that `count` events were applied, the last of the time `at`."""
        builder = self.builder
        if at > builder.last_at:
            builder.last_at = at
        self.next += count
        if (builder.ended is None) is not (self.ended_at is None):  # a run may go on with its next turn
            self.ended_at = None if builder.ended is None else record.timestamp

    def go_on(self, first: int, last: int, count: int, text: str, record: Record) -> bool:
        """Apply a record that is as expected; return False, with nothing changed, if it does more than continue a text.

        It has `count` events from `first` to `last` (ms), with the joined text `text`.
        """
        builder, expected = self.builder, self.expected
        if expected is None or self.early:
            return False
        builder.at = first
        event = expected.event(text)
        stretch = self.dialect.stretches.get(event.get(self.dialect.wire.kind))
        appended = stretch is not None and stretch(builder, [event], 0)
        expected.forget_text()
        if not appended:
            return False
        builder.at = last
        self.guesses = MAX_WRONG_GUESSES
        self._pass(last, count, record)
        return True

    def foresee(self, envelope: Envelope) -> ExpectedRecord | None:
        """Return the form of the next record if it continues this one, the newest.

        None: it can't be predicted.
        """
        event = envelope["events"][-1] if envelope["events"] else None
        if event.__class__ is not dict:
            return None
        kind = event.get(self.dialect.wire.kind)
        deltas = self.dialect.deltas.get(kind) if kind is None or kind.__class__ is str else None
        if deltas is None:
            return None
        self.guesses -= 1
        return expected_after(envelope, {delta.text for delta in deltas})

    def _end_stream(self, how: End | None, record: Record) -> None:
        self.builder.ended = how
        if how is not None and self.ended_at is None:
            self.ended_at = record.timestamp

    def _apply_many(self, ts: int, events: list[Any], dt: list[int] | None, record: Record) -> int:
        """Apply events in order, deltas in stretches, which cost half. Return the time of the last."""
        builder, dialect = self.builder, self.dialect
        handler_of, stretch_of, kind, unknown, untyped = (
            dialect.handlers.get,
            dialect.stretches.get,
            dialect.wire.kind,
            dialect.unknown,
            dialect.wire.untyped,
        )
        builder.at = ts
        index, count = 0, len(events)
        while index < count:
            event = events[index]
            if dt is not None:
                builder.at = ts + dt[index]
            try:
                name = event.get(kind) if untyped else event[kind]
                stretch = stretch_of(name)
                behind = index if stretch is None else stretch(builder, events, index)
                if behind == index:
                    handler_of(name, unknown)(builder, event)
                    behind = index + 1
                elif dt is not None:
                    builder.at = ts + dt[behind - 1]
                index = behind
            except Exception as error:  # as above
                self._refuse_event(event, error, record)
                index += 1
        return builder.at

    def _refuse_event(self, event: Any, error: Exception, record: Record) -> None:
        if self.builder.lossy:  # a consequence of the lost events
            return
        reason, detail = refusal(event, self.dialect.wire.kind, error)
        self._add_refusal(record, reason, f"seq {self.next}+: {detail}")

    def _add_refusal(self, record: Record, reason: Reason, detail: str) -> None:
        self.refusals.append(Refused(record, reason, detail))

    def reopen(self, revision: int, at: int) -> None:
        """Go on after it was closed as interrupted; `at`: broker ms of the record that reopened it."""
        self.revision = revision
        self.end = None
        self.ended_at = at if self.builder.ended else None
        self.opened_at = self.last_at = at
        self.gap_at = at if self.early else None

    def park(self) -> None:
        """Drop the turns built so far: from here on, only the numbers of its events are followed.

        All its records must be on the state topic.
        """
        self.read, self.held = self.last_offset, BEGUN
        self.dialect = listening(self.dialect)
        self.builder = bare(self.builder)
        for seq, early in self.early.items():
            self.early[seq] = self._without_events(*early)

    def _without_events(self, envelope: Envelope, record: Record) -> tuple[Envelope, Record]:
        if envelope.__class__ is Outline:
            return envelope, record
        slim = StoredRecord(b"", record.offset, record.timestamp)
        return outline(envelope, _size(record), self.dialect), slim

    @property
    def weight(self) -> int:
        """The bytes of memory of what the run has built, estimated until `weigh`, and of its records not spilled."""
        grown = self.size - self.weighed
        built = self.held + (min(grown, self.held // 4) if self.weighed else grown)
        return built + self._unspilled_bytes()

    def weigh(self) -> None:
        """Look how much memory it takes, if it has grown much since it was last looked at."""
        if self.size > self.weighed * WEIGH_GROWTH:
            held = taken(self)
            self.held = AROUND + (self.size if held is None else max(0, held - self._unspilled_bytes()))
            self.weighed = self.size

    def _unspilled_bytes(self) -> int:
        return self.size - self.spilled + PER_RECORD * len(self.unspilled)

    def missing(self) -> list[list[int]]:
        """Return the holes in the sequence, as [first, last] of each; 0 stands for the run of an unnumbered wire."""
        if self.seen is not None:
            known = sorted(self.seen | {0})
            return [[before + 1, seq - 1] for before, seq in pairwise(known) if seq > before + 1]
        return self.early.holes(self.next) if self.early else []

    def last_seq(self) -> int:
        """Return the highest seq seen; -1 if there was no event."""
        return self.early.last_seq(self.next) if self.early else self.next - 1

    def count(self, missing: Iterable[Sequence[int]]) -> int:
        """Return the number of events seen: all except `missing`, its holes."""
        if self.seen is not None:
            return len(self.seen | {0})
        return self.last_seq() + 1 - sum([last - first + 1 for first, last in missing])

    def verdict(self) -> str:
        """Return how the run ended.

        A publisher's report that it broke off takes precedence, then the stream's terminal event.
        """
        if self.builder.ended is None:
            return self.end or "disconnected"
        return self.end if self.end in ("aborted", "error") else self.builder.ended

    def past_the_holes(self, builder: Builder) -> None:
        """Apply the early events to `builder`, a copy of this run's; parts that were open across a hole are dropped."""
        seqs = sorted(self.early)
        ahead = Run(self.early[seqs[0]][0], self.dialect, self.early[seqs[0]][1])
        ahead.next, ahead.builder = self.next, builder
        ahead.builder.notes["meta:missing"] = self.missing()
        ahead.builder.lossy = True
        for seq in seqs:
            envelope, record = self.early[seq]
            if seq > ahead.next:
                ahead.next = seq
                ahead.builder.torn = True
                ahead.builder.open_text.clear()
                ahead.builder.open_thinking.clear()
            ahead._apply(envelope, record)  # its own class


def _size(record: Record) -> int:
    return len(record.value or b"")


def _early_weight(envelope: Envelope, record: Record) -> int:
    if envelope.__class__ is Outline:
        return envelope.weight
    return _size(record) + structure(envelope["events"])
