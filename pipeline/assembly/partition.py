"""Assembly of a partition of the events topic: takes its records, and returns the turns of its runs.

Pure: records go in with `feed`, time with `tick` (broker ms), results come out with `take_out`. After a crash, the
events topic must be read again from the offset `floor()`, so that nothing is lost. The states of its runs, and the
transitions between them, are in `run_states`.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import orjson

from pipeline.assembly.builder import End
from pipeline.assembly.deadlines import ended, overdue, overdue_spilled, spill_due, window_is_full
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.expected_record import Deltas, read_deltas
from pipeline.assembly.finishing import Finishing, Polish, PolishTelemetry
from pipeline.assembly.limits import Limits
from pipeline.assembly.records import Envelope, Record, Refused
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.results import Counts, Out
from pipeline.assembly.run import BEGUN, Run
from pipeline.assembly.run_ends import RunEnds
from pipeline.assembly.run_states import CLOSED, OPEN, REOPENABLE, SPILLED, UNKNOWN, ImpossibleTransition, State
from pipeline.assembly.spilled_run import SpilledRun
from pipeline.assembly.weight import LARGE_RECORD, LIGHT
from pipeline.turns.lineage import Redacted
from topics import state as state_topic
from topics.json_text import Fields
from topics.state import Closed, RunKey
from topics.turn_record import TurnRecord
from turnmill.errors import InvalidRecord, Reason
from turnmill.wire.envelope import ENDS, MAX_INTEGER, batch_refusal, checked, decode

INT: Final = frozenset({int})
NOTHING: Final[Fields] = {}
REPORT_GROWTH: Final = 1.25  # growth of a run until its usage is reported again, since each report builds the run


class Partition:
    """The runs of a partition. `next` is the offset to be read next, `now` the broker's newest time (ms)."""

    def __init__(
        self,
        dialects: Mapping[str, Dialect],
        limits: Limits,
        start: int,
        polish: Polish | None = None,
        polish_telemetry: PolishTelemetry | None = None,
        fits: Callable[[TurnRecord], bool] | None = None,
        redacted: Redacted = str,
    ) -> None:
        """For `polish` and the others see `Finishing`. If one fails, that turn or record becomes a dead letter."""
        self.dialects = dialects
        self.limits = limits
        self.finishing = Finishing(limits, self.dialect_of, polish, polish_telemetry, fits, redacted)
        self.next = start
        self.now = 0
        self.ends = RunEnds(limits, self.finishing)
        self.runs = self.ends.runs
        self.overdue = deque[RunKey]()  # spilled runs whose deadline may have passed, in this order
        self.unspilled = 0  # approximate bytes of large records that came since `spill` was called

    @property
    def out(self) -> Out:
        """The results since `take_out` was called."""
        return self.ends.out

    @property
    def counts(self) -> Counts:
        """The counts since `take_counts` was called."""
        return self.ends.counts

    def take_out(self) -> Out:
        """Return the results so far; those to come are collected in a new object."""
        out, self.ends.out = self.ends.out, Out()
        return out

    def take_counts(self) -> Counts:
        """Return the counts so far, and begin at zero."""
        counts, self.ends.counts = self.ends.counts, Counts()
        return counts

    # ---- records

    def feed(self, records: Sequence[Record]) -> None:
        """Apply records of ascending offsets; skip those before `next`, which were applied already."""
        loads, runs, applied = orjson.loads, self.runs.open, self.ends.counts.events
        most, full = min(LARGE_RECORD, self.limits.record_bytes), min(LIGHT, self.limits.run_bytes)
        following, now, read = self.next, self.now, 0  # locals are faster; `self` is updated before it is used
        expecting = self.runs.expecting
        try:
            for record in records:
                offset, at, value = record.offset, record.timestamp, record.value
                if offset < following:
                    continue
                following = offset + 1
                read += 1
                if at > now:
                    now = at
                # The usual case: the next record of an open run, perhaps its last. A record accepted here must pass
                # `decode`, too, through which it may go after a restart. Most records are as expected.
                if expecting and read_deltas is not None and value is not None and len(value) <= most:
                    deltas = read_deltas(expecting, value)
                    if deltas is not None and self._goes_on(deltas, record, offset, at, value, full):
                        continue
                envelope: Fields = NOTHING
                try:
                    envelope = loads(value)  # type: ignore[arg-type]  # None raises, too; compiled, what is no object
                    dt = tenant = end = None
                    others = len(envelope) - 8
                    if others and "dt" in envelope:
                        dt = envelope["dt"]
                        others -= 1
                    if others and "end" in envelope:
                        end = envelope["end"]
                        others -= 1
                    if others:  # if it has `run`, too, or an unknown key, more than this one is left
                        tenant = envelope["tenant"]
                        others -= 1
                    run = runs[tenant, envelope["thread_id"], envelope["run_id"]]  # type: ignore[index]  # as RunKey
                    dialect, builder = run.dialect, run.builder
                    events, seq, ts, version = envelope["events"], envelope["seq"], envelope["ts"], envelope["v"]
                    count, size = len(events), len(value)  # type: ignore[arg-type]  # it was JSON
                    usual = (
                        not others
                        and seq == run.next
                        and type(seq) is int
                        and not run.early
                        and type(version) is int
                        and version == 1
                        and envelope["agent_id"] == builder.context.agent_id
                        and envelope["dialect"] == dialect.name
                        and type(events) is list
                        and count > 0
                        and type(ts) is int
                        and 0 <= ts <= MAX_INTEGER
                        and (dt is None or (len(dt) == count and {*map(type, dt)} == INT))
                        and (end is None or end in ENDS)
                        and size <= most
                        and (grown := run.size + size) <= full
                    )
                except (KeyError, TypeError, ValueError, AttributeError):
                    usual = False
                if not usual:
                    self.next, self.now = following, now
                    self.take(record, envelope or None)
                    continue
                run.last_at = at
                run.last_offset = offset
                run.size = grown
                run.unspilled.append(value)  # type: ignore[arg-type]  # as above
                run.apply_events(ts, events, dt, record)
                applied[dialect.name] += count
                if run.refusals or builder.telemetry:
                    self.ends.collect(run, record)
                if end is not None:
                    self.next, self.now = following, now
                    self._end(RunKey(tenant, envelope["thread_id"], envelope["run_id"]), run, end, record)
                elif run.guesses:
                    self._foresee(run, envelope)
        finally:
            self.next, self.now = following, now
            self.ends.counts.records += read

    def _goes_on(self, deltas: Deltas, record: Record, offset: int, at: int, value: bytes, full: int) -> bool:
        """Apply the result of `read_deltas` to its run; return False, with nothing changed, if that is not possible."""
        run: Run = deltas[0]  # typed: compiled code looks up attributes of Any by their names
        _, seq, first, last, count, text = deltas
        grown = run.size + len(value)
        if seq != run.next or grown > full or not run.go_on(first, last, count, text, record):
            return False
        run.last_at = at
        run.last_offset = offset
        run.size = grown
        run.unspilled.append(value)
        self.ends.counts.events[run.dialect.name] += count
        return True

    def _end(self, key: RunKey, run: Run, end: End, record: Record) -> None:
        """Close an open run whose newest record has a publisher's `end`."""
        run.end = end
        self.unspilled += len(run.unspilled[-1])
        try:
            self._close_if_ended(key, run)
        except Exception as error:  # as in `take`
            self.ends.out.dead.append(Refused(record, Reason.INVALID_EVENT, f"{type(error).__name__}: {error}"))

    def _foresee(self, run: Run, envelope: Envelope) -> None:
        """Expect that the next record of an open run continues its newest one, if that can be predicted."""
        expected = run.foresee(envelope)
        if expected is not None:
            self.runs.expect(run, expected)

    def take(self, record: Record, parsed: Any = None) -> None:
        """Take any record. `parsed`: its JSON (parsing again costs 2 %); None: it is not parsed yet."""
        value = record.value
        if value is not None and len(value) > self.limits.record_bytes:
            detail = f"{len(value)} bytes; at most {self.limits.record_bytes} are taken"
            self.ends.out.dead.append(Refused(record, Reason.TOO_LARGE, batch_refusal(record.headers) or detail))
            return
        try:
            self._route(decode(value) if parsed is None else checked(parsed), record)
        except InvalidRecord as error:
            batch = batch_refusal(record.headers)
            reason, detail = (error.reason, error.detail) if batch is None else (Reason.TOO_LARGE, batch)
            self.ends.out.dead.append(Refused(record, reason, detail))
        except Exception as error:  # no single record may stop the rest
            self.ends.out.dead.append(Refused(record, Reason.INVALID_EVENT, f"{type(error).__name__}: {error}"))

    def _route(self, envelope: Envelope, record: Record) -> None:
        """Apply a record by the state of its run: an open run goes on, a closed one may be reopened."""
        dialect = self.dialect_of(envelope)
        key = RunKey(envelope.get("tenant"), envelope["thread_id"], envelope["run_id"])
        run = self.runs.open.get(key)
        state = self.runs.state(key) if run is None else OPEN
        if state is SPILLED:
            state = self._close_if_over(key)
            if key in self.ends.awaited:
                self.ends.wait(key, record)
                return
        if run is None and state is not UNKNOWN:
            run = self.run_of(key, state)
        if run is not None and run.dialect.name != dialect.name:
            raise InvalidRecord(Reason.PROTOCOL_VIOLATION, f"the run is {run.dialect.name}, this record {dialect.name}")
        closed = self.runs.marks.get(key) if state is REOPENABLE or state is CLOSED else None
        if run is not None:
            known = run.knows(envelope) or (record.offset <= run.last_offset and not run.misses(envelope))
        elif dialect.wire.unnumbered:
            known = closed is not None and record.offset <= closed.offset
        else:
            known = closed is not None and envelope["seq"] + len(envelope["events"]) - 1 <= closed.seq
        if known:
            self.ends.counts.duplicates += len(envelope["events"])
            return
        if closed is not None:
            run = self._reopened(run, closed, envelope, record)
        if run is None:
            run = Run(envelope, dialect, record, self.limits.run_bytes)
            self.ends.counts.opened += 1
        if state is not OPEN:
            self.runs.resume(key, run, state)
            run.first_offset, run.unspilled_at = record.offset, record.timestamp
        self._apply(key, run, envelope, record)

    def _apply(self, key: RunKey, run: Run, envelope: Envelope, record: Record) -> None:
        """Apply a record that an open run does not know yet, and close the run if that was its end."""
        before = run.next
        run.unspilled.append(record.value or b"")
        self.unspilled += len(run.unspilled[-1])
        run.last_offset = record.offset
        run.take(envelope, record)
        counts = self.ends.counts
        counts.events[run.dialect.name] += run.next - before
        if run.duplicates:
            counts.duplicates += run.duplicates
            run.duplicates = 0
        if run.refusals or run.builder.telemetry:
            self.ends.collect(run, record)
        if not self._close_if_ended(key, run) and run.guesses and not run.early and run.read is None:
            self._foresee(run, envelope)

    def _close_if_ended(self, key: RunKey, run: Run) -> bool:
        """Close an open run if its newest record was its end; return whether it was."""
        event = ended(run, self.limits)
        if event is not None:
            self.ends.close(key, run, event, self.now)
        return event is not None

    def dialect_of(self, envelope: Envelope) -> Dialect:
        dialect = self.dialects.get(envelope["dialect"])
        if dialect is None:
            known = ", ".join(self.dialects)
            raise InvalidRecord(Reason.UNKNOWN_DIALECT, f"{envelope['dialect']!r:.80}; known: {known}")
        return dialect

    def run_of(self, key: RunKey, state: State) -> Run | None:
        """Return the run that a record may belong to; None if there is none, or it can't be read any more."""
        if state is OPEN:
            return self.runs.open[key]
        spilled = self.runs.spilled.get(key) or self.runs.reopenable.get(key)
        if spilled is None:
            return None
        return spilled.rebuilt(key, self.dialect_of, self.ends.out.dead, self.limits.run_bytes)

    def _close_if_over(self, key: RunKey) -> State:
        """Close a spilled run that ended before its worker died, but had no mark yet; return its state."""
        if key in self.ends.awaited:
            return SPILLED
        run = self.run_of(key, SPILLED)
        event = ended(run, self.limits) if run is not None else None
        if run is not None and event is not None:
            self.ends.close(key, run, event, self.now)
        elif run is None:
            self._await_unreadable(key)
        return self.runs.state(key)

    def _await_unreadable(self, key: RunKey) -> bool:
        """Have the host read the records of a parked run that can't be built; return whether it is parked.

        They become dead letters.
        """
        parked = self.runs.spilled[key].read is not None
        if parked:
            self.ends.await_build(key, self.now)
        return parked

    def _reopened(self, run: Run | None, closed: Closed, envelope: Envelope, record: Record) -> Run:
        """Reopen an interrupted run: its turn will be replaced by a newer revision. Raises InvalidRecord."""
        seq = envelope["seq"]
        if closed.cut:
            detail = f"seq {seq}: the run was too large, and was cut off (TURNMILL_RUN_BYTES, TURNMILL_CONTENT)"
            raise InvalidRecord(Reason.TOO_LARGE, detail)
        # By the record's time: after a restart, `now` is the time of the newest mark, perhaps of another run.
        if run is None or record.timestamp - closed.at > self.limits.reopen_ms:
            how = "complete" if closed.complete else "interrupted"
            raise InvalidRecord(Reason.LATE_EVENT, f"seq {seq}: the turn was closed as {how} after seq {closed.seq}")
        if seq > run.next and window_is_full(run, self.limits):
            detail = f"seq {seq}: {run.early.events} events wait for seq {run.next} already; send that one first"
            raise InvalidRecord(Reason.LATE_EVENT, detail)
        run.reopen(closed.revision + 1, record.timestamp)
        self.ends.counts.reopened += 1
        return run

    # ---- time

    def tick(self, now: int) -> bool:
        """Close runs whose deadline has passed at `now` (broker ms); remove expired marks and reopenable runs.

        Return False if more are overdue than are closed at once, since a turn takes more memory than its open run:
        then call it again, once the results are taken.
        """
        self.now = max(self.now, now)
        if not self.overdue:
            self.overdue.extend(self.runs.spilled.due(self.now))
        room = self.limits.closing_bytes
        for key, run in list(self.runs.open.items()):
            if room <= 0:
                return False
            event = overdue(run, self.now, self.limits)
            if event is not None:
                self.ends.close(key, run, event, self.now)
                room -= BEGUN + run.size
            elif self.limits.tell_use and run.read is None and not run.early and run.next > run.metered * REPORT_GROWTH:
                self.ends.out.telemetry += self.finishing.used(run)
        while self.overdue:
            if room <= 0:
                return False
            room -= self._close_overdue(self.overdue.popleft())
        for key, closed in self.runs.expire(self.now):
            self.ends.out.marks.append((state_topic.closed_key(key, closed), None))
        return True

    def _close_overdue(self, key: RunKey) -> int:
        """Close a spilled run if its deadline has passed; return the weight of what was closed."""
        spilled = self.runs.spilled.get(key)
        if spilled is None or key in self.ends.awaited:  # it goes on meanwhile; or it is replaced when it is built
            return 0
        event = overdue_spilled(spilled, self.now, self.limits)
        if event is None:
            self.runs.replace_spilled(key, spilled)
            return 0
        run = self.run_of(key, SPILLED)  # its exact end is known once it is built again
        if run is None:
            if not self._await_unreadable(key):
                self.runs.give_up(key)
            return BEGUN
        known = ended(run, self.limits) or overdue(run, self.now, self.limits)
        self.ends.close(key, run, known or event, self.now)
        return BEGUN + run.size if run.read is None else BEGUN

    def open_runs(self) -> int:
        """Return how many runs are open, in memory or spilled."""
        return len(self.runs.open) + len(self.runs.spilled)

    # ---- what a restart needs

    def floor(self) -> int:
        """Return the first offset still needed: that of the oldest record of open runs that is not spilled."""
        for run in self.runs.open.values():
            return run.first_offset
        return self.next

    def spill(self) -> None:
        """Move runs that have been open for long to the state topic, so that the floor may pass them.

        If the records of open runs take too much memory, move the oldest runs, too.
        """
        self.unspilled = 0
        held = sum([run.size - run.spilled for run in self.runs.open.values()])
        for key, run in list(self.runs.open.items()):
            event = spill_due(run, held, self.now, self.limits)
            if event is None:
                return
            held -= run.size - run.spilled
            try:
                self.runs.after(key, event)
                self.ends.store(key, run)
                with suppress(Exception):  # it only saves memory; an error will show when the turn is built
                    run.builder.compact()
                    run.held, run.weighed = BEGUN, 0  # it takes less now
                self.runs.spill(key, event)
            except ImpossibleTransition as error:
                self.ends.give_up(key, run, str(error))

    def restore(self, restored: RestoredState) -> None:
        """Restore this partition's state from the state topic, before the first record."""
        self.now = max(self.now, restored.now)
        reopenable, complete = dict[RunKey, SpilledRun](), list[RunKey]()
        for key, segments, weight in restored.by_run():
            self.ends.segments.restore(key, segments)
            spilled = restored.spilled(key, segments, weight)
            if spilled is None:
                complete.append(key)
            elif spilled[1]:  # it is open
                self.runs.spilled.put(key, spilled[0])
            else:
                reopenable[key] = spilled[0]
        for key in complete:
            self.ends.remove_segments(key)
        self.runs.restore(reopenable, restored.marks)
