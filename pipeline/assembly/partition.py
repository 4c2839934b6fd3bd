"""Assembly of one partition of the events topic: its records in, the turns of its runs out.

Pure: records go in with `feed`, time with `tick` (broker ms), results are taken from `out`. All that a crash may not
lose is covered by `floor()`: the offset from which the events topic must be read again. The states of its runs, and
what moves a run from one to another, are in `run_states`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import orjson

from pipeline.assembly.deadlines import ended, overdue, overdue_spilled, spill_due, window_is_full
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.finishing import Finishing, Polish, PolishTelemetry, is_large
from pipeline.assembly.limits import Limits
from pipeline.assembly.oversized import with_key
from pipeline.assembly.records import Envelope, Record, Refused, StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.results import Built, Counts, Out, Oversized, Parked, Unbuilt
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
from pipeline.assembly.segment_names import SegmentNames
from pipeline.assembly.spilled_run import rebuild, segments_of
from pipeline.assembly.weight import LARGE_RECORD, LIGHT
from threadmill.envelope import LARGEST, checked, decode
from threadmill.errors import InvalidRecord, Reason
from topics import state as state_topic
from topics.state import Closed, RunKey, Segment
from topics.turn_record import TurnRecord

INT: Final = frozenset({int})


class Partition:
    """The runs of one partition. `next` is the offset to be read next, `now` the broker's newest time (ms)."""

    def __init__(
        self,
        dialects: Mapping[str, Dialect],
        limits: Limits,
        start: int,
        polish: Polish | None = None,
        polish_telemetry: PolishTelemetry | None = None,
        fits: Callable[[TurnRecord], bool] | None = None,
    ) -> None:
        """For `polish` and the others see `Finishing`. Where one fails, that turn or record becomes a dead letter."""
        self.dialects = dialects
        self.limits = limits
        self.finishing = Finishing(limits, self._dialect, polish, polish_telemetry, fits)
        self.next = start
        self.now = 0
        self.runs = RunStates(limits, self._remove_segments)
        self.out = Out()
        self.counts = Counts()
        self.unspilled = 0  # bytes of large records, more or less, that came since `spill` was called
        self.segments = SegmentNames()
        self.awaited: dict[RunKey, list[Record]] = {}  # parked runs that are over, and what came for them since

    # ---- records

    def feed(self, records: Sequence[Record]) -> None:
        """Apply records of ascending offsets; those before `next` were seen already."""
        loads, runs, applied = orjson.loads, self.runs.open, self.counts.events
        most, full = min(LARGE_RECORD, self.limits.record_bytes), min(LIGHT, self.limits.run_bytes)
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
                    dt = tenant = None
                    others = len(envelope) - 8
                    if others and "dt" in envelope:
                        dt = envelope["dt"]
                        others -= 1
                    if others:
                        tenant = envelope["tenant"]
                        if others != 1:
                            raise KeyError  # there is a run, an end, or something unknown, too
                    run = runs[tenant, envelope["thread_id"], envelope["run_id"]]  # type: ignore[index]  # as RunKey
                    dialect, builder = run.dialect, run.builder
                    events, seq, ts, version = envelope["events"], envelope["seq"], envelope["ts"], envelope["v"]
                    count, size = len(events), len(value)  # type: ignore[arg-type]  # it was JSON
                    if (
                        seq != run.next
                        or seq.__class__ is not int
                        or run.early
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
                        or (grown := run.size + size) > full
                    ):
                        raise KeyError
                except (KeyError, TypeError, ValueError, AttributeError):
                    self.next, self.now = following, now
                    self._take(record, envelope)
                    continue
                run.last_at = at
                run.last_offset = offset
                run.size = grown
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
        key = RunKey(envelope.get("tenant"), envelope["thread_id"], envelope["run_id"])
        state = self.runs.state(key)
        if state is SPILLED:
            state = self._close_if_over(key)
        if key in self.awaited:
            self.awaited[key].append(record)
            return
        run = self._run(key, state)
        if run is not None and run.dialect.name != dialect.name:
            raise InvalidRecord(Reason.PROTOCOL_VIOLATION, f"the run is {run.dialect.name}, this record {dialect.name}")
        closed = self.runs.marks.get(key) if state is REOPENABLE or state is CLOSED else None
        if run is not None:
            known = run.knows(envelope) or (record.offset <= run.last_offset and not run.misses(envelope))
        else:
            known = closed is not None and envelope["seq"] + len(envelope["events"]) - 1 <= closed.seq
        if known:
            self.counts.duplicates += len(envelope["events"])
            return
        if closed is not None:
            run = self._reopened(run, closed, envelope, record)
        if run is None:
            run = Run(envelope, dialect, record, self.limits.run_bytes)
            self.counts.opened += 1
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
        if spilled is None:
            return None
        return spilled.rebuilt(key, self._dialect, self.out.dead, self.limits.run_bytes)

    def _close_if_over(self, key: RunKey) -> State:
        """Close a spilled run that was over when its worker died, before that could write its mark -> its state."""
        run = self._run(key, SPILLED) if key not in self.awaited else None
        event = ended(run, self.limits) if run is not None else None
        if run is not None and event is not None:
            self._close(key, run, event)
        return self.runs.state(key)

    def _reopened(self, run: Run | None, closed: Closed, envelope: Envelope, record: Record) -> Run:
        """An interrupted run goes on: its turn will be replaced by a newer revision. Raises InvalidRecord."""
        seq = envelope["seq"]
        if closed.cut:
            detail = f"seq {seq}: the run was too large, and was cut off (THREADMILL_RUN_BYTES, THREADMILL_CONTENT)"
            raise InvalidRecord(Reason.TOO_LARGE, detail)
        # By the record's own time: after a restart `now` is that of the newest mark, perhaps of another run's.
        if run is None or record.timestamp - closed.at > self.limits.reopen_ms:
            how = "complete" if closed.complete else "interrupted"
            raise InvalidRecord(Reason.LATE_EVENT, f"seq {seq}: the turn was closed as {how} after seq {closed.seq}")
        if seq > run.next and window_is_full(run, self.limits):
            detail = f"seq {seq}: {run.early.events} events wait for seq {run.next} already; send that one first"
            raise InvalidRecord(Reason.LATE_EVENT, detail)
        run.reopen(closed.revision + 1, record.timestamp)
        self.counts.reopened += 1
        return run

    def _collect(self, run: Run, record: Record) -> None:
        """Move what a run has produced on the way to `out`; a record with many bad events is one dead letter. `record`
        is the one that it took last.
        """
        if run.read is not None:
            run.refusals.clear()  # they come again when it is built
        if run.builder.telemetry:
            self.out.telemetry.extend(self.finishing.streamed(run, record))
        if run.refusals:
            for source, letters in groupby(run.refusals, key=lambda refused: refused.record):
                first, *more = letters
                detail = f"{first.detail} (and {len(more)} more in this record)" if more else first.detail
                self.out.dead.append(Refused(source, first.reason, detail))
            run.refusals = []

    # ---- the end of a run

    def _close(self, key: RunKey, run: Run, event: Event) -> None:
        """Hand over the turns of an open or spilled run that `event` has ended, and its mark."""
        try:
            after = self.runs.after(key, event)
            if run.read is not None:
                self._await(key, run, event)
                return
            large = is_large(run)
            try:
                turns, telemetry = self.finishing.finished(run, event)
                if large and not self.finishing.all_fit(turns):
                    event, turns, telemetry = Event.TOO_LARGE, [], []
                    after = self.runs.after(key, event)
                    self._hand_over(key, run)
            except Exception as error:  # a turn that can't be built is lost to its readers, but stops nothing
                event, turns, telemetry = Event.UNBUILDABLE, [], []
                after = self.runs.after(key, event)
                self._bury(key, run, f"the turn could not be built: {type(error).__name__}: {error}")
            cut = event is Event.TOO_LARGE
            closed = Closed(run.last_offset, run.next - 1, after is CLOSED and not cut, self.now, run.revision, cut)
            if large:
                self.out.large.update((key.tenant, turn["turn_id"]) for turn in turns)
            for record in run.beyond or ():
                detail = f"the run weighs more than {run.most:,} bytes (THREADMILL_RUN_BYTES), and was cut off"
                self.out.dead.append(Refused(with_key(record, key.thread_id), Reason.TOO_LARGE, detail))
            if turns:
                spilled = self.segments.of(key)
                self.out.built.append(Built(key, len(turns), run.unspilled, spilled, run.last_offset, run.last_at))
            if after is REOPENABLE:
                self._store_records(key, run)
            if event is Event.UNBUILDABLE:
                self.segments.bury(key)
            self.out.turns.extend(turns)
            self.out.telemetry.extend(telemetry)
            self.out.marks.append((state_topic.closed_key(key, closed), state_topic.encode(key, closed)))
            self.runs.close(key, event, run, closed)
            self.counts.closed += 1
        except ImpossibleTransition as error:
            self._give_up(key, run, error)

    def _hand_over(self, key: RunKey, run: Run) -> None:
        """Its turns are larger than their topic takes: the host reads what of it is spilled, and cuts it off."""
        parent = run.builder.context.traceparent
        rest = Segment(run.first_offset, run.last_offset, run.last_at, run.unspilled, 0, parent)
        self.out.oversized.append(Oversized(key, self.segments.of(key), rest, run.revision))

    def cut_off(self, oversized: Oversized, segments: Sequence[Segment]) -> Out:
        """See `Finishing.cut_off`."""
        return self.finishing.cut_off(oversized, segments)

    def _give_up(self, key: RunKey, run: Run, error: ImpossibleTransition) -> None:
        """Part with a run that can't be moved, so that it stops no other; see `run_states`. All of its records are dead
        letters then, so a restart must not find those that were spilled.
        """
        self._bury(key, run, str(error))
        self.runs.give_up(key)
        self._remove_segments(key)

    def _bury(self, key: RunKey, run: Run, detail: str) -> None:
        """The raw records of a run become dead letters; those on the state topic are the host's to read."""
        spilled = self.segments.not_buried(key)
        if spilled:
            self.out.unbuilt.append(Unbuilt(key, spilled, detail))
        for value in run.unspilled:
            record = StoredRecord(value, run.last_offset, run.last_at, key.thread_id.encode())
            self.out.dead.append(Refused(record, Reason.INVALID_EVENT, detail))

    def _remove_segments(self, key: RunKey) -> None:
        self.out.marks.extend((name, None) for name in self.segments.remove(key))

    # ---- parked runs

    def weight(self) -> int:
        """What the open runs take of the memory, more or less: bytes."""
        return self.runs.spilled_weight + sum([run.size for run in self.runs.open.values() if run.read is None])

    def park(self, most: int) -> None:
        """Park runs until the others weigh `most` at most, or are all light: each time the heaviest of the tenant whose
        runs weigh most, so that nobody's runs make room for another's.
        """
        excess = self.weight() - most
        heavy: dict[str | None, list[tuple[int, RunKey]]] = {}
        sizes = [(run.size, key) for key, run in self.runs.open.items() if run.read is None]
        sizes += [(spilled.weight, key) for key, spilled in self.runs.spilled.items()]
        for size, key in sizes:
            if size >= self.limits.park_bytes:
                heavy.setdefault(key.tenant, []).append((size, key))
        held = {tenant: sum(size for size, _ in runs) for tenant, runs in heavy.items()}
        for runs in heavy.values():
            runs.sort(key=itemgetter(0))
        while excess > 0 and held:
            tenant = max(held, key=held.__getitem__)
            size, key = heavy[tenant].pop()
            self._park(key)
            excess -= size
            held[tenant] -= size
            if not heavy[tenant]:
                del held[tenant]

    def _park(self, key: RunKey) -> None:
        state = self.runs.state(key)
        run = self._run(key, state)
        if run is None:
            return
        if state is OPEN:
            self._store_records(key, run)
            self.runs.spill(key, Event.MEMORY_BOUND)
        run.park()
        self.runs.replace_spilled(key, run)
        self.counts.parked += 1

    def _await(self, key: RunKey, run: Run, event: Event) -> None:
        """A parked run is over: the host reads its records, and calls `build`."""
        if key in self.runs.open:
            self._store_records(key, run)
            self.runs.spill(key, Event.MEMORY_BOUND)
        self.awaited[key] = []
        self.out.parked.append(Parked(key, self.segments.of(key), event))

    def build(self, parked: Parked, segments: Iterable[Segment]) -> None:
        """Build a parked run of all its records, close it, and go on with what came for it since."""
        key = parked.run
        before, waiting = self.runs.spilled[key], self.awaited.pop(key)
        read = -1 if before.read is None else before.read

        def take(run: Run, segment: Segment, record: Record) -> None:
            if segment.last_offset > read:
                self._collect(run, record)
            else:
                run.refusals.clear()
                run.builder.telemetry.clear()

        run = rebuild(key, segments, self._dialect, self.out.dead, self.limits.run_bytes, take)
        if run is None:
            self.runs.give_up(key)
            self._remove_segments(key)
        else:
            run.revision = before.revision
            self.runs.replace_spilled(key, run)
            event = ended(run, self.limits) or overdue(run, self.now, self.limits)
            if event is not None:
                self._close(key, run, event)
            else:  # its stream has not ended after all
                run.park()
                self.runs.replace_spilled(key, run)
        for record in waiting:
            self._take(record, None)
        if waiting:  # others have been opened since these came
            self.runs.sort_open()

    # ---- time

    def tick(self, now: int) -> None:
        """Close runs whose deadline has passed at `now` (broker ms); forget what is too old to matter."""
        self.now = max(self.now, now)
        for key, run in list(self.runs.open.items()):
            event = overdue(run, self.now, self.limits)
            if event is not None:
                self._close(key, run, event)
        for key, spilled in list(self.runs.spilled.items()):
            if key in self.awaited:
                continue
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
        known = ended(run, self.limits) or overdue(run, self.now, self.limits)
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
        self.unspilled = 0
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
            self.out.segments.append((name, state_topic.encode(key, segment)))
            self.segments.add(key, name)
            self.counts.spilled += 1
        run.unspilled, run.spilled = [], run.size

    def restore(self, restored: RestoredState) -> None:
        """Take what the state topic holds of this partition, before the first record."""
        self.now = max(self.now, restored.now)
        found = restored.by_run()
        self.segments.restore(found)
        spilled, reopenable, complete = restored.runs(found)
        for key in complete:
            self._remove_segments(key)
        self.runs.restore(spilled, reopenable, restored.marks)
