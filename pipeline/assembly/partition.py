"""Assembly of one partition of the events topic: its records in, the turns of its runs out.

Pure: records go in with `feed`, time with `tick` (broker ms), results are taken from `out`. All that a crash may not
lose is covered by `floor()`: the offset from which the events topic must be read again. The states of its runs, and
what moves a run from one to another, are in `run_states`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

import orjson

from pipeline.assembly.deadlines import ended, ending, overdue, overdue_spilled, spill_due
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.limits import Limits
from pipeline.assembly.offline import close
from pipeline.assembly.records import Envelope, Record, Refused, StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.results import Counts, Out, Source, Unbuilt
from pipeline.assembly.run import Run
from pipeline.assembly.run_states import (
    CLOSED,
    OPEN,
    REOPENABLE,
    SPILLED,
    Event,
    ImpossibleTransition,
    RunStates,
    State,
)
from pipeline.assembly.spilled_run import segments_of
from pipeline.assembly.telemetry import closing_records, polished, streamed_records
from threadmill.envelope import LARGEST, checked, decode
from threadmill.errors import InvalidRecord, Reason
from topics import state as state_topic
from topics.state import Closed, RunKey
from topics.telemetry import TelemetryRecord
from topics.turn_record import TurnRecord

LARGE: Final = 2_000_000  # bytes of a run whose turn may be too large for its topic
INT: Final = frozenset({int})


class Partition:
    """The runs of one partition. `next` is the offset to be read next, `now` the broker's newest time (ms)."""

    def __init__(
        self,
        dialects: Mapping[str, Dialect],
        limits: Limits,
        start: int,
        polish: Callable[[TurnRecord], TurnRecord] | None = None,
        polish_telemetry: Callable[[TelemetryRecord], TelemetryRecord] | None = None,
    ) -> None:
        """`polish` changes each finished turn before it is handed over, and `polish_telemetry` each telemetry record:
        redaction. Where one fails, that turn or record becomes a dead letter.
        """
        self.dialects = dialects
        self.limits = limits
        self.polish = polish
        self.polish_telemetry = polish_telemetry
        self.next = start
        self.now = 0
        self.runs = RunStates(limits, self._remove_segments)
        self.out = Out()
        self.counts = Counts()
        self.segments: dict[RunKey, list[str]] = {}  # state keys of open and reopenable runs
        self.buried: set[str] = set()  # those of them whose records are dead letters already

    # ---- records

    def feed(self, records: Sequence[Record]) -> None:
        """Apply records of ascending offsets; those before `next` were seen already."""
        loads, runs, applied, most = orjson.loads, self.runs.open, self.counts.events, self.limits.record_bytes
        following, now, read = self.next, self.now, 0  # locals are quicker; `self` gets them before it is used
        try:
            for record in records:
                offset, at, value = record.offset, record.timestamp, record.value
                if offset < following:
                    continue
                following = offset + 1
                read += 1
                if at > now:
                    now = at
                # The usual case: the next record of an open run, and nothing special about it. What is taken here must
                # pass `decode`, too: after a restart the same record may go that way.
                envelope = None
                try:
                    envelope = loads(value)  # type: ignore[arg-type]  # None raises, too
                    run = runs[envelope["thread_id"], envelope["run_id"]]
                    dialect, builder = run.dialect, run.builder
                    events, seq, ts, version = envelope["events"], envelope["seq"], envelope["ts"], envelope["v"]
                    dt = None if len(envelope) == 8 else envelope["dt"]  # no tenant, run, end, nor anything unknown
                    count, size = len(events), len(value)  # type: ignore[arg-type]  # it was JSON
                    if (
                        seq != run.next
                        or seq.__class__ is not int
                        or run.early
                        or len(envelope) > 9
                        or version.__class__ is not int
                        or version != 1
                        or envelope["agent_id"] != builder.context.agent_id
                        or envelope["dialect"] != dialect.name
                        or events.__class__ is not list
                        or not count
                        or ts.__class__ is not int
                        or not 0 <= ts <= LARGEST
                        or (dt is not None and (len(dt) != count or {*map(type, dt)} != INT))
                        or size > most
                    ):
                        raise KeyError
                except (KeyError, TypeError, ValueError, AttributeError):
                    self.next, self.now = following, now
                    self._take(record, envelope)
                    continue
                run.last_at = at
                run.last_offset = offset
                run.size += size
                run.unspilled.append(value)  # type: ignore[arg-type]  # as above
                run.apply_events(ts, events, dt, record)
                applied[dialect.name] += count
                if run.refusals or builder.telemetry:
                    self._collect(run, record)
        finally:
            self.next, self.now = following, now
            self.counts.records += read

    def _take(self, record: Record, parsed: Any) -> None:
        """Take one record, whatever it is. `parsed`: its JSON (parsing again costs 2 %); None: it is not parsed yet."""
        value = record.value
        if value is not None and len(value) > self.limits.record_bytes:
            detail = f"{len(value)} bytes; at most {self.limits.record_bytes} are taken"
            self.out.dead.append(Refused(record, Reason.TOO_LARGE, detail))
            return
        try:
            self._route(decode(value) if parsed is None else checked(parsed), record)
        except InvalidRecord as error:
            self.out.dead.append(Refused(record, error.reason, error.detail))
        except Exception as error:  # nothing in one record may stop the rest
            self.out.dead.append(Refused(record, Reason.INVALID_EVENT, f"{type(error).__name__}: {error}"))

    def _route(self, envelope: Envelope, record: Record) -> None:
        """Give a record to its run, by the state of that run: an open one goes on, a closed one may be opened again."""
        dialect = self._dialect(envelope)
        key = (envelope["thread_id"], envelope["run_id"])
        state = self.runs.state(key)
        if state is SPILLED:
            state = self._close_if_over(key)
        run = self._run(key, state)
        if run is not None and run.dialect is not dialect:
            raise InvalidRecord(Reason.PROTOCOL_VIOLATION, f"the run is {run.dialect.name}, this record {dialect.name}")
        closed = self.runs.marks.get(key) if state is REOPENABLE or state is CLOSED else None
        if run is not None:
            known = run.knows(envelope)
        else:
            known = closed is not None and envelope["seq"] + len(envelope["events"]) - 1 <= closed.seq
        if known:
            self.counts.duplicates += len(envelope["events"])
            return
        if closed is not None:
            run = self._reopened(run, closed, envelope, record)
        if run is None:
            run = Run(envelope, dialect, record)
            self.counts.opened += 1
        if state is not OPEN:
            self.runs.resume(key, run, state)
            run.first_offset, run.unspilled_at = record.offset, record.timestamp
        self._apply(key, run, envelope, record)

    def _apply(self, key: RunKey, run: Run, envelope: Envelope, record: Record) -> None:
        """Apply a record that an open run does not know yet, and close the run if that was its end."""
        before, value = run.next, record.value or b""
        run.unspilled.append(value)
        run.size += len(value)
        run.last_offset = record.offset
        run.feed(envelope, record)
        self.counts.events[run.dialect.name] += run.next - before
        self.counts.duplicates += run.duplicates
        run.duplicates = 0
        self._collect(run, record)
        event = ended(run, self.limits)
        if event is not None:
            self._close(key, run, event)

    def _dialect(self, envelope: Envelope) -> Dialect:
        dialect = self.dialects.get(envelope["dialect"])
        if dialect is None:
            known = ", ".join(self.dialects)
            raise InvalidRecord(Reason.UNKNOWN_DIALECT, f"{envelope['dialect']!r:.80}; known: {known}")
        return dialect

    def _run(self, key: RunKey, state: State) -> Run | None:
        """A run that a record may belong to; None where there is none, or it can't be read any more."""
        if state is OPEN:
            return self.runs.open[key]
        spilled = self.runs.spilled.get(key) or self.runs.reopenable.get(key)
        return spilled.rebuilt(self._dialect, self.out.dead) if spilled is not None else None

    def _close_if_over(self, key: RunKey) -> State:
        """Close a spilled run that was over when its worker died, before that could write its mark -> its state."""
        run = self._run(key, SPILLED)
        event = ended(run, self.limits) if run is not None and run.end is not None else None
        if run is not None and event is not None:
            self._close(key, run, event)
        return self.runs.state(key)

    def _reopened(self, run: Run | None, closed: Closed, envelope: Envelope, record: Record) -> Run:
        """An interrupted run goes on: its turn will be replaced by a newer revision. Raises InvalidRecord."""
        seq = envelope["seq"]
        if run is None or self.now - closed.at > self.limits.reopen_ms:
            how = "complete" if closed.complete else "interrupted"
            raise InvalidRecord(Reason.LATE_EVENT, f"seq {seq}: the turn was closed as {how} after seq {closed.seq}")
        if seq > run.next and run.early.events > self.limits.window_events:
            detail = f"seq {seq}: {run.early.events} events wait for seq {run.next} already; send that one first"
            raise InvalidRecord(Reason.LATE_EVENT, detail)
        run.reopen(closed.revision + 1, record.timestamp)
        self.counts.reopened += 1
        return run

    def _collect(self, run: Run, record: Record) -> None:
        """Move what a run has produced on the way to `out`; a record with many bad events is one dead letter. `record`
        is the one that it took last.
        """
        if run.builder.telemetry:
            found = streamed_records(run)
            self.out.telemetry.extend(self._polished(run, found, record))
        if run.refusals:
            for source, letters in groupby(run.refusals, key=lambda refused: refused.record):
                first, *more = letters
                detail = f"{first.detail} (and {len(more)} more in this record)" if more else first.detail
                self.out.dead.append(Refused(source, first.reason, detail))
            run.refusals = []

    def _polished(self, run: Run, found: Iterable[TelemetryRecord], record: Record) -> Iterable[TelemetryRecord]:
        return found if self.polish_telemetry is None else polished(run, found, self.polish_telemetry, record)

    # ---- the end of a run

    def _close(self, key: RunKey, run: Run, event: Event) -> None:
        """Hand over the turns of an open or spilled run that `event` has ended, and its mark."""
        try:
            after = self.runs.after(key, event)
            try:
                turns, builder = close(run, ending(run, event), keep_telemetry=self.limits.keep_telemetry)
                turns = [self.polish(turn) for turn in turns] if self.polish is not None else turns
                last = StoredRecord(b"", run.last_offset, run.last_at)
                telemetry = list(self._polished(run, closing_records(run, builder, turns), last))
            except Exception as error:  # a turn that can't be built is lost to its readers, but stops nothing
                event, turns, telemetry = Event.UNBUILDABLE, [], []
                after = self.runs.after(key, event)
                self._bury(key, run, f"the turn could not be built: {type(error).__name__}: {error}")
            closed = Closed(run.last_offset, run.last_seq(), after is CLOSED, self.now, run.revision)
            if run.size > LARGE:
                spilled = tuple(self.segments.get(key, ()))
                source = Source(tuple(run.unspilled), spilled, run.last_offset, run.last_at)
                self.out.sources.update((turn["turn_id"], source) for turn in turns)
            if after is REOPENABLE:
                self._store_records(key, run)
            if event is Event.UNBUILDABLE:
                self.buried.update(self.segments.get(key, ()))
            self.out.turns.extend(turns)
            self.out.telemetry.extend(telemetry)
            self.out.marks.append((state_topic.closed_key(key, closed), state_topic.encode(closed)))
            self.runs.close(key, event, run, closed)
            self.counts.closed += 1
        except ImpossibleTransition as error:
            self._give_up(key, run, error)

    def _give_up(self, key: RunKey, run: Run, error: ImpossibleTransition) -> None:
        """Part with a run that can't be moved, so that it stops no other; see `run_states`."""
        self._bury(key, run, str(error))
        self.runs.give_up(key)

    def _bury(self, key: RunKey, run: Run, detail: str) -> None:
        """The raw records of a run become dead letters; those on the state topic are the host's to read."""
        spilled = tuple(name for name in self.segments.get(key, ()) if name not in self.buried)
        if spilled:
            self.out.unbuilt.append(Unbuilt(key[0], spilled, detail))
        for value in run.unspilled:
            record = StoredRecord(value, run.last_offset, run.last_at, key[0].encode())
            self.out.dead.append(Refused(record, Reason.INVALID_EVENT, detail))

    def _remove_segments(self, key: RunKey) -> None:
        names = self.segments.pop(key, ())
        self.buried.difference_update(names)
        self.out.marks.extend((name, None) for name in names)

    # ---- time

    def tick(self, now: int) -> None:
        """Close runs whose deadline has passed at `now` (broker ms); forget what is too old to matter."""
        self.now = max(self.now, now)
        for key, run in list(self.runs.open.items()):
            event = overdue(run, self.now, self.limits)
            if event is not None:
                self._close(key, run, event)
        for key, spilled in list(self.runs.spilled.items()):
            event = overdue_spilled(spilled, self.now, self.limits)
            if event is not None:
                self._close_spilled(key, event)
        for key, closed in self.runs.expire(self.now):
            self.out.marks.append((state_topic.closed_key(key, closed), None))

    def _close_spilled(self, key: RunKey, event: Event) -> None:
        """Close a spilled run whose deadline has passed; once it is built again, it may tell more of its end."""
        run = self._run(key, SPILLED)
        if run is None:
            self.runs.give_up(key)
            return
        known = ended(run, self.limits) if run.end is not None else overdue(run, self.now, self.limits)
        self._close(key, run, known or event)

    def open_runs(self) -> int:
        """How many runs are open, in memory or spilled."""
        return len(self.runs.open) + len(self.runs.spilled)

    # ---- what a restart needs

    def floor(self) -> int:
        """The first offset that is still needed: of the oldest open run's oldest record that is not spilled."""
        for run in self.runs.open.values():
            return run.first_offset
        return self.next

    def spill(self) -> None:
        """Move runs that have been open for long to the state topic, so that the floor may pass them; and the oldest
        ones where they are so many that their records fill the memory.
        """
        held = sum([run.size - run.spilled for run in self.runs.open.values()])
        for key, run in list(self.runs.open.items()):
            event = spill_due(run, held, self.now, self.limits)
            if event is None:
                return
            held -= run.size - run.spilled
            try:
                self.runs.after(key, event)
                self._store_records(key, run)
                with suppress(Exception):  # it saves memory alone; what can't be joined fails when the turn is built
                    run.builder.compact()
                self.runs.spill(key, event)
            except ImpossibleTransition as error:
                self._give_up(key, run, error)

    def _store_records(self, key: RunKey, run: Run) -> None:
        """Hand over the records of a run that the state topic does not have yet."""
        for segment in segments_of(run):
            name = state_topic.segment_key(key, segment)
            self.out.segments.append((name, state_topic.encode(segment)))
            self.segments.setdefault(key, []).append(name)
            self.counts.spilled += 1
        run.unspilled, run.spilled = [], run.size

    def restore(self, restored: RestoredState) -> None:
        """Take what the state topic holds of this partition, before the first record."""
        self.now = max(self.now, restored.now)
        for key, found in restored.segments.items():
            self.segments[key] = [state_topic.segment_key(key, segment) for segment in found.values()]
        spilled, reopenable, complete = restored.runs()
        for key in complete:
            self._remove_segments(key)
        self.runs.restore(spilled, reopenable, restored.marks)
