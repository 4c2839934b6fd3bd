"""One run: what it has seen, and the builder of its turns.

`seq` numbers a run's events without holes. Records may come twice, in other batches, or out of order: what was seen
is dropped and counted, what is early waits in a window until the hole before it is filled.
"""

from __future__ import annotations

import copy
import reprlib
from typing import Any

from pipeline.assembly.builder import Builder, End
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.parts import Context
from pipeline.assembly.records import Envelope, Record, Refused
from pipeline.assembly.sequence_window import SequenceWindow
from threadmill import traceparent
from threadmill.errors import InvalidRecord, Reason


class Run:
    """One open run. `next` is the seq of the event that must come next; `end` is set when the run is over.

    `first_offset` is the oldest raw record that is needed to build it again and is not spilled, `last_offset` its
    newest; `last_at` the broker's time (ms) of that one; `size` the bytes of all its records, `spilled` of those in the
    state topic.
    """

    __slots__ = (
        "builder",
        "dialect",
        "duplicates",
        "early",
        "end",
        "ended_at",
        "first_offset",
        "gap_at",
        "last_at",
        "last_offset",
        "next",
        "opened_at",
        "refusals",
        "revision",
        "size",
        "spilled",
        "unspilled",
        "unspilled_at",
    )

    def __init__(self, envelope: Envelope, dialect: Dialect, record: Record) -> None:
        context = Context(envelope["thread_id"].lower(), envelope["run_id"], envelope["agent_id"], dialect.name)
        if record.headers:
            context.traceparent = traceparent.of_headers(record.headers)
        self.builder = Builder(context, envelope["ts"])
        self.dialect = dialect
        self.next = 0
        self.early = SequenceWindow()
        self.gap_at: int | None = None  # broker ms since when nothing has come to fill the hole before `early`
        self.end: End | None = None
        self.ended_at: int | None = None  # broker ms of the stream's own terminal event
        self.opened_at = self.last_at = record.timestamp
        self.first_offset = self.last_offset = record.offset
        self.unspilled: list[bytes] = []  # raw records since the last spill
        self.unspilled_at = record.timestamp  # broker ms of the first of them
        self.revision = 0
        self.size = self.spilled = 0
        self.duplicates = 0
        self.refusals: list[Refused] = []

    def knows(self, envelope: Envelope) -> bool:
        """Whether a record brings nothing new: its events were applied or wait already, and so does its `end`."""
        seq, count, end = envelope["seq"], len(envelope["events"]), envelope.get("end")
        if seq > self.next:
            return self.early.holds(envelope)
        if seq + count == self.next:
            return self.builder.started and (end is None or self.end is not None)
        return bool(seq + count < self.next)

    def feed(self, envelope: Envelope, record: Record) -> None:
        """Take one record, in any order; afterwards look at `end`, `ended_at`, `refusals`."""
        if self.knows(envelope):
            self.duplicates += len(envelope["events"])
            return
        self.last_at = max(self.last_at, record.timestamp)
        if envelope["seq"] > self.next:
            self.early.put(envelope, record)
            if self.gap_at is None:
                self.gap_at = record.timestamp
            return
        self._apply(envelope, record)
        while (due := self.early.take_due(self.next)) is not None:
            self._apply(*due)
        self.gap_at = record.timestamp if self.early else None

    def _apply(self, envelope: Envelope, record: Record) -> None:
        """Apply the events of a record that starts at or before `next`."""
        events, dt = envelope["events"], envelope.get("dt")
        seen = self.next - envelope["seq"]
        if seen:
            if seen > len(events):
                self.duplicates += len(events)
                return
            self.duplicates += seen
            events, dt = events[seen:], dt[seen:] if dt else None
        if envelope["seq"] == 0:  # the record that came first may not have been the first one
            self.builder.context.agent_id = envelope["agent_id"]
        if envelope.get("run"):
            wrong = self.builder.context.learn(envelope["run"])
            if wrong:
                self._add_refusal(record, Reason.INVALID_EVENT, f"left out of `run`, for its type: {', '.join(wrong)}")
        if envelope.get("tenant") is not None:
            self.builder.context.tenant = envelope["tenant"]
        self.apply_events(envelope["ts"], events, dt, record)
        if envelope.get("end") is not None:
            self.end = envelope["end"]

    def apply_events(self, ts: int, events: list[Any], dt: list[int] | None, record: Record) -> None:
        """Apply events that follow directly on those before. The hot path: a dictionary look-up and a call each."""
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
                kind = dialect.wire.kind
                name = event.get(kind) if dialect.wire.untyped else event[kind]
                dialect.handlers.get(name, dialect.unknown)(builder, event)
            except Exception as error:  # whatever a hostile event does: it is one dead letter
                self._refuse_event(event, error, record)
        else:
            at = self._apply_many(ts, events, dt, record)
        if at > builder.last_at:
            builder.last_at = at
        self.next += count
        if (builder.ended is None) is not (self.ended_at is None):  # a run may go on with its next turn
            self.ended_at = None if builder.ended is None else record.timestamp

    def _apply_many(self, ts: int, events: list[Any], dt: list[int] | None, record: Record) -> int:
        """Apply them in order, deltas in stretches: at once they cost half. -> the last one's time."""
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
        if self.builder.lossy:  # a consequence of what was lost
            return
        if isinstance(error, InvalidRecord):
            reason, detail = error.reason, error.detail
        else:
            reason, detail = Reason.INVALID_EVENT, _why(event, self.dialect.wire.kind, error)
        self._add_refusal(record, reason, f"seq {self.next}+: {detail}")

    def _add_refusal(self, record: Record, reason: Reason, detail: str) -> None:
        self.refusals.append(Refused(record, reason, detail))

    def reopen(self, revision: int, at: int) -> None:
        """Go on after it was closed as interrupted; `at`: broker ms of the record that opened it again."""
        self.revision = revision
        self.end = None
        self.ended_at = at if self.builder.ended else None
        self.opened_at = self.last_at = at
        self.gap_at = at if self.early else None

    def missing(self) -> list[list[int]]:
        """The holes in the sequence, as [first, last] of each."""
        return self.early.holes(self.next)

    def last_seq(self) -> int:
        """The highest seq that was seen; -1 where there was no event."""
        return self.early.last_seq(self.next)

    def count(self) -> int:
        """How many events were seen, without those that are missing."""
        return self.last_seq() + 1 - sum(last - first + 1 for first, last in self.missing())

    def verdict(self) -> str:
        """How the run ended. A publisher that saw it break off knows best, then the stream's own terminal event."""
        if self.builder.ended is None:
            return self.end or "disconnected"
        return self.end if self.end in ("aborted", "error") else self.builder.ended

    def past_the_holes(self) -> Builder:
        """A copy of the builder that went on past the holes: parts that were open across one are discarded."""
        ahead = copy.copy(self)
        ahead.refusals = []
        ahead.builder = copy.deepcopy(self.builder)
        ahead.builder.notes["meta:missing"] = self.missing()
        ahead.builder.lossy = True
        for seq in sorted(self.early):
            envelope, record = self.early[seq]
            if seq > ahead.next:
                ahead.next = seq
                ahead.builder.open_text.clear()
                ahead.builder.open_thinking.clear()
            ahead._apply(envelope, record)  # noqa: SLF001  # its own class
        return ahead.builder


def _why(event: Any, kind: str, error: Exception) -> str:
    if not isinstance(event, dict):
        return f"an event must be a JSON object, got {reprlib.repr(event)}"
    if not isinstance(event.get(kind), str):
        return f"an event needs a string {kind!r}, got {reprlib.repr(event.get(kind))}"
    if isinstance(error, KeyError):
        missing = reprlib.repr(error.args[0]) if error.args else "something"
        return f"{event[kind]:.80}: {missing} is missing, or refers to nothing that is open"
    return f"{event[kind]:.80}: {type(error).__name__}: {error}"
