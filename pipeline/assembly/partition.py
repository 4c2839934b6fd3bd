"""Assembly of one partition of the events topic: many runs, their deadlines, and the memory of closed ones.

Pure: records go in with `feed`, time with `tick` (broker ms), results are taken from `out`. All that a crash may not
lose is covered by `floor()`: the offset from which the events topic must be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import orjson

from pipeline.assembly.closed_runs import ClosedRuns
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.limits import Limits
from pipeline.assembly.offline import close
from pipeline.assembly.restored_state import Remembered
from pipeline.assembly.results import Counts, Out
from pipeline.assembly.run import Record, Refused, Run, StoredRecord
from pipeline.assembly.spilled_run import Parked, stored_bytes
from pipeline.assembly.telemetry import closing_records, streamed_records
from threadmill.envelope import LARGEST, checked, decode
from threadmill.errors import InvalidRecord, Reason
from topics import state
from topics.state import MAX_SEGMENT_BYTES, Closed, RunKey, Segment
from topics.turn_record import TurnRecord

INT: Final = frozenset({int})


class Partition:
    """Open, parked and closed runs of one partition. `next` is the offset to be read next."""

    def __init__(
        self,
        dialects: Mapping[str, Dialect],
        limits: Limits,
        start: int,
        polish: Callable[[TurnRecord], TurnRecord] | None = None,
    ) -> None:
        """`polish` has the last word on each finished turn: redaction."""
        self.dialects = dialects
        self.limits = limits
        self.polish = polish
        self.next = start
        self.now = 0
        self.runs: dict[RunKey, Run] = {}  # with records that are not in the state topic, oldest record first
        self.parked: dict[RunKey, Parked] = {}  # open
        self.out = Out()
        self.counts = Counts()
        self.segments: dict[RunKey, list[str]] = {}  # state keys of open and reopenable runs
        self.closed = ClosedRuns(limits, self._remove_segments)

    # ---- records

    def feed(self, records: Sequence[Record]) -> None:
        """Apply records of ascending offsets; those before `next` were seen already."""
        loads, runs, applied, most = orjson.loads, self.runs, self.counts.events, self.limits.record_bytes
        following, now, read = self.next, self.now, 0  # told to `self` before anyone else looks
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
                if run.refused or builder.telemetry:
                    self._collect(run)
        finally:
            self.next, self.now = following, now
            self.counts.records += read

    def _take(self, record: Record, parsed: Any) -> None:
        """One record, whatever it is; `parsed`: its JSON, None where orjson took none (parsing again costs 2 %)."""
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

    def _route(self, envelope: dict[str, Any], record: Record) -> None:
        """Give a record to its run: an open one, a parked one, one that is reopened, or a new one."""
        dialect = self._dialect(envelope)
        key = (envelope["thread_id"], envelope["run_id"])
        run = self.runs.get(key) or self._parked(key)
        if run is not None and run.dialect is not dialect:
            raise InvalidRecord(Reason.PROTOCOL_VIOLATION, f"the run is {run.dialect.name}, this record {dialect.name}")
        closed = self.closed.get(key)
        if closed is not None and run is None:
            known = envelope["seq"] + len(envelope["events"]) - 1 <= closed.seq
        else:
            known = run is not None and run.knows(envelope)
        if known:
            self.counts.duplicates += len(envelope["events"])
            return
        if closed is not None:
            run = self._reopened(key, run, closed, envelope, record)
        if run is None:
            run = Run(envelope, dialect, record)
            self.counts.opened += 1
        if key not in self.runs:
            self.parked.pop(key, None)
            run.first_offset, run.unspilled_at = record.offset, record.timestamp
            self.runs[key] = run
        before = run.next
        run.unspilled.append(record.value or b"")
        run.size += len(record.value or b"")
        run.last_offset = record.offset
        run.feed(envelope, record)
        self.counts.events[dialect.name] += run.next - before
        self.counts.duplicates += run.duplicates
        run.duplicates = 0
        self._collect(run)
        if run.end is not None:
            self._close(key, run, run.verdict())
        elif run.waiting > self.limits.window_events:
            self._close(key, run, "events_lost")

    def _dialect(self, envelope: dict[str, Any]) -> Dialect:
        dialect = self.dialects.get(envelope["dialect"])
        if dialect is None:
            known = ", ".join(self.dialects)
            raise InvalidRecord(Reason.UNKNOWN_DIALECT, f"{envelope['dialect']!r:.80}; known: {known}")
        return dialect

    def _reopened(self, key: RunKey, run: Run | None, closed: Closed, envelope: dict[str, Any], record: Record) -> Run:
        """An interrupted run goes on: its turn will be replaced by a newer revision. Raises InvalidRecord."""
        seq = envelope["seq"]
        if run is None or self.now - closed.at > self.limits.reopen_ms:
            how = "complete" if closed.complete else "interrupted"
            raise InvalidRecord(Reason.LATE_EVENT, f"seq {seq}: the turn was closed as {how} after seq {closed.seq}")
        if seq > run.next and run.waiting > self.limits.window_events:
            detail = f"seq {seq}: {run.waiting} events wait for seq {run.next} already; send that one first"
            raise InvalidRecord(Reason.LATE_EVENT, detail)
        self.closed.reopen(key)
        run.revision = closed.revision + 1
        run.end = None
        run.ended_at = record.timestamp if run.builder.ended else None
        run.opened_at = run.last_at = record.timestamp
        run.gap_at = record.timestamp if run.early else None
        self.counts.reopened += 1
        return run

    def _parked(self, key: RunKey) -> Run | None:
        parked = self.parked.get(key)
        if parked is not None:
            run = parked.revive(self._dialect, self.out.dead)
            if run is None or run.end is None:
                return run
            self._close_parked(key, parked)  # it was over when its worker died, before it could mark that
        parked = self.closed.reopenable.get(key)
        return parked.revive(self._dialect, self.out.dead) if parked is not None else None

    def _collect(self, run: Run) -> None:
        """Move what a run has produced on the way to `out`; a record with many bad events is one dead letter."""
        if run.refused:
            for record, letters in groupby(run.refused, key=lambda refused: refused.record):
                first, *more = letters
                detail = f"{first.detail} (and {len(more)} more in this record)" if more else first.detail
                self.out.dead.append(Refused(record, first.reason, detail))
            run.refused = []
        if run.builder.telemetry:
            self.out.telemetry.extend(streamed_records(run))

    # ---- the end of a run

    def _close(self, key: RunKey, run: Run, end: str) -> None:
        del self.runs[key]
        complete = end == "complete" and not run.early
        try:
            turns, builder = close(run, end, keep_telemetry=self.limits.keep_telemetry)
            turns = [self.polish(turn) for turn in turns] if self.polish is not None else turns
            telemetry = list(closing_records(run, builder, turns))
        except Exception as error:  # a turn that can't be built is lost to its readers, but stops nothing
            complete, turns, telemetry = False, [], []
            detail = f"the turn could not be built: {type(error).__name__}: {error}"
            for value in run.unspilled:
                source = StoredRecord(value, run.last_offset, run.last_at, key[0].encode())
                self.out.dead.append(Refused(source, Reason.INVALID_EVENT, detail))
        self.counts.closed += 1
        self.out.turns.extend(turns)
        self.out.telemetry.extend(telemetry)
        closed = Closed(run.last_offset, run.last_seq(), complete, self.now, run.revision)
        self.out.marks.append((state.closed_key(key, closed), state.encode(closed)))
        if complete:
            self._remove_segments(key)
            self.closed.add(key, closed)
        else:
            self._spill_run(key, run)
            parked = Parked([], run.last_at, run.opened_at, run.revision, run.size, run)
            self.closed.add(key, closed, parked)

    def tick(self, now: int) -> None:
        """Close runs whose deadline has passed at `now` (broker ms); forget what is too old to matter."""
        self.now = max(self.now, now)
        limits = self.limits
        for key, run in list(self.runs.items()):
            end = self._overdue(run)
            if end is not None:
                self._close(key, run, end)
        for key, parked in list(self.parked.items()):
            if (
                self.now - parked.last_at > limits.idle_ms
                or self.now - parked.opened_at > limits.run_ms
                or (parked.run is not None and self._overdue(parked.run) is not None)
            ):
                self._close_parked(key, parked)
        for key, closed in self.closed.expire(self.now):
            self.out.marks.append((state.closed_key(key, closed), None))

    def _remove_segments(self, key: RunKey) -> None:
        self.out.marks.extend((name, None) for name in self.segments.pop(key, ()))

    def _close_parked(self, key: RunKey, parked: Parked) -> None:
        run = parked.revive(self._dialect, self.out.dead)
        del self.parked[key]
        if run is not None:
            run.first_offset = self.next
            self.runs[key] = run
            self._close(key, run, run.verdict() if run.end is not None else self._overdue(run) or "timeout")

    def _overdue(self, run: Run) -> str | None:
        limits = self.limits
        if run.gap_at is not None and self.now - run.gap_at > limits.gap_ms:
            return "events_lost"
        if run.ended_at is not None and self.now - max(run.ended_at, run.last_at) > limits.grace_ms and not run.early:
            return run.verdict()
        if self.now - run.last_at > limits.idle_ms or self.now - run.opened_at > limits.run_ms:
            return "timeout"
        return None

    def open_runs(self) -> int:
        """How many runs are open, in memory or parked."""
        return len(self.runs) + len(self.parked)

    # ---- what a restart needs

    def floor(self) -> int:
        """The first offset that is still needed: of the oldest open run's oldest record that is not spilled."""
        for run in self.runs.values():
            return run.first_offset
        return self.next

    def spill(self) -> None:
        """Move runs that have been open for long to the state topic, so that the floor may pass them; and the oldest
        ones where they are so many that their records fill the memory.
        """
        held = sum([run.size - run.spilled for run in self.runs.values()])
        for key, run in list(self.runs.items()):
            if self.now - run.unspilled_at <= self.limits.spill_ms and held <= self.limits.open_bytes:
                return
            held -= run.size - run.spilled
            self._spill_run(key, run)
            run.builder.compact()
            self.parked[key] = Parked([], run.last_at, run.opened_at, run.revision, run.size, run)
            del self.runs[key]

    def _spill_run(self, key: RunKey, run: Run) -> None:
        batch: list[bytes] = []
        size = part = 0
        said = run.builder.context.traceparent
        for value in [*run.unspilled, b""]:
            if batch and (not value or size + len(value) > MAX_SEGMENT_BYTES):
                segment = Segment(run.first_offset, run.last_offset, run.last_at, batch, part, said)
                self.out.segments.append((state.segment_key(key, segment), state.encode(segment)))
                self.segments.setdefault(key, []).append(state.segment_key(key, segment))
                self.counts.spilled += 1
                batch, size, part = [], 0, part + 1
            batch.append(value)
            size += len(value)
        run.unspilled, run.spilled = [], run.size

    def restore(self, remembered: Remembered) -> None:
        """Take what the state topic holds of this partition, before the first record."""
        self.now = max(self.now, remembered.now)
        reopenable: dict[RunKey, Parked] = {}
        for key, found in remembered.segments.items():
            segments = list(found.values())
            self.segments[key] = [state.segment_key(key, segment) for segment in segments]
            closed = remembered.marks.get(key)
            if closed is not None and closed.complete:
                self._remove_segments(key)  # left by a worker that died before it removed them
                continue
            # Records behind the mark: the run was reopened, and is open still.
            newer = [segment for segment in segments if closed is None or segment.last_offset > closed.offset]
            size = stored_bytes(segments)
            if newer:
                revision = 0 if closed is None else closed.revision + 1
                opened_at, last_at = min(s.at for s in newer), max(s.at for s in newer)
                self.parked[key] = Parked(segments, last_at, opened_at, revision, size)
                remembered.marks.remove(key)
            elif closed is not None:
                at = max(segment.at for segment in segments)
                reopenable[key] = Parked(segments, at, at, closed.revision, size)
        self.closed.take_over(remembered.marks, reopenable)
