"""Ends the runs of a partition: hands their results over, and moves each run to its next state."""

from itertools import groupby

from pipeline.assembly.finishing import Finishing, is_large
from pipeline.assembly.limits import Limits
from pipeline.assembly.oversized import with_key
from pipeline.assembly.records import Record, Refused, buried
from pipeline.assembly.results import Built, Counts, Out, Oversized, Parked, Unbuilt
from pipeline.assembly.run import Run
from pipeline.assembly.run_states import CLOSED, REOPENABLE, Event, ImpossibleTransition, RunStates
from pipeline.assembly.segment_names import SegmentNames
from pipeline.assembly.spilled_run import segments_of
from pipeline.assembly.telemetry import FEEDBACK, feedback_of, raw_record
from topics import state as state_topic
from topics.state import Clocks, Closed, RunKey, Segment
from turnmill.errors import InvalidRecord, Reason


class RunEnds:
    """The runs of a partition by their states; `out` has the results of ended runs.

    `awaited`: parked runs that are over, and that the host will build, with the records that have come for them since;
    `awaited_bytes`: the size of these records.
    """

    def __init__(self, limits: Limits, finishing: Finishing) -> None:
        self.finishing = finishing
        self.segments = SegmentNames()
        self.runs = RunStates(limits, self.segments, self.remove_segments)
        self.awaited: dict[RunKey, list[Record]] = {}
        self.awaited_bytes = 0
        self.out = Out()
        self.counts = Counts()

    def collect(self, run: Run, record: Record) -> None:
        """Move a run's results so far to `out`; a record with many bad events is one dead letter.

        `record` is the last that it has applied.
        """
        if run.read is not None:
            run.refusals.clear()  # they are repeated when it is built
        if run.builder.telemetry:
            for event in self.finishing.streamed(run, record):
                if event["type"] != FEEDBACK:
                    self.out.telemetry.append(event)
                    continue
                try:
                    if self.finishing.limits.feedback:
                        self.out.feedback.append(feedback_of(event))
                except InvalidRecord as error:
                    run.refusals.append(Refused(raw_record(run, event, record), error.reason, error.detail))
        if run.refusals:
            for source, letters in groupby(run.refusals, key=lambda refused: refused.record):
                first, *more = letters
                detail = f"{first.detail} (and {len(more)} more in this record)" if more else first.detail
                self.out.dead.append(Refused(source, first.reason, detail))
            run.refusals = []

    def close(self, key: RunKey, run: Run, event: Event, now: int) -> None:
        """Hand over the turns of an open or spilled run that `event` has ended, and its mark; `now`: broker ms."""
        try:
            after = self.runs.after(key, event)
            if run.read is not None:
                if key in self.runs.open:
                    self.store(key, run)
                    self.runs.spill(key, Event.MEMORY_BOUND)
                self.await_build(key, now)
                return
            large = is_large(run)
            try:
                turns, telemetry = self.finishing.finished(run, event)
                if large and not self.finishing.all_fit(turns):
                    event, turns, telemetry = Event.TOO_LARGE, [], []
                    after = self.runs.after(key, event)
                    self._hand_over(key, run)
            except Exception as error:  # a turn that can't be built must not stop anything else
                event, turns, telemetry = Event.UNBUILDABLE, [], []
                after = self.runs.after(key, event)
                self._bury(key, run, f"the turn could not be built: {type(error).__name__}: {error}")
            cut = event is Event.TOO_LARGE
            closed = Closed(run.last_offset, run.next - 1, after is CLOSED and not cut, now, run.revision, cut)
            if large:
                self.out.large.update((key.tenant, turn["turn_id"]) for turn in turns)
            for record in run.beyond or ():
                detail = f"the run weighs more than {run.most:,} bytes (TURNMILL_RUN_BYTES), and was cut off"
                self.out.dead.append(Refused(with_key(record, key.thread_id), Reason.TOO_LARGE, detail))
            if turns:
                spilled = self.segments.of(key)
                self.out.built.append(Built(key, len(turns), run.unspilled, spilled, run.last_offset, run.last_at))
            if after is REOPENABLE:
                self.store(key, run)
                if event is Event.UNBUILDABLE:
                    self.segments.bury(key)
            self.out.turns.extend(turns)
            self.out.telemetry.extend(telemetry)
            self.out.marks.append((state_topic.closed_key(key, closed), state_topic.encode(key, closed)))
            self.runs.close(key, event, run, closed)
            self.counts.closed += 1
        except ImpossibleTransition as error:
            self.give_up(key, run, str(error))

    def _hand_over(self, key: RunKey, run: Run) -> None:
        """Hand over a run whose turns exceed their topic's limit: the host reads its spilled records, and cuts it."""
        parent, clocks = run.builder.context.traceparent, Clocks(run.opened_at, run.gap_at, run.ended_at)
        rest = Segment(run.first_offset, run.last_offset, run.last_at, clocks, run.unspilled, 0, parent)
        self.out.oversized.append(Oversized(key, self.segments.of(key), rest, run.revision))

    def give_up(self, key: RunKey, run: Run | None, detail: str) -> None:
        """Give up a run that can't be moved or built, so that it stops no other; see `run_states`.

        All its records become dead letters, so a restart must not find the spilled ones. `run` None: all its records
        are spilled.
        """
        self._bury(key, run, detail)
        self.runs.give_up(key)
        self.remove_segments(key)

    def _bury(self, key: RunKey, run: Run | None, detail: str) -> None:
        """Turn the raw records of a run into dead letters; the host reads those on the state topic."""
        spilled = self.segments.not_buried(key)
        if spilled:
            self.out.unbuilt.append(Unbuilt(key, spilled, detail))
        if run is not None:
            self.out.dead += buried(run.unspilled, run.last_offset, run.last_at, key.thread_id, detail)

    def remove_segments(self, key: RunKey) -> None:
        self.out.marks.extend((name, None) for name in self.segments.remove(key))

    def await_build(self, key: RunKey, now: int) -> None:
        """Have the host read the records of a parked run that is over, or can't be followed.

        The host then calls `parked_runs.build`.
        """
        self.awaited[key] = []
        self.out.parked.append(Parked(key, self.segments.of(key), now, self.segments.size(key)))

    def wait(self, key: RunKey, record: Record) -> None:
        """Keep a record for an awaited run."""
        self.awaited[key].append(record)
        self.awaited_bytes += len(record.value or b"")

    def waited(self, key: RunKey) -> list[Record]:
        """Return and remove the records that came for an awaited run, which is built now."""
        records = self.awaited.pop(key)
        self.awaited_bytes -= sum([len(record.value or b"") for record in records])
        return records

    def store(self, key: RunKey, run: Run) -> None:
        """Hand over the records of a run that the state topic does not have yet."""
        for segment in segments_of(run):
            self.out.segments.append((state_topic.segment_key(key, segment), state_topic.encode(key, segment)))
            self.segments.add(key, segment)
            self.counts.spilled += 1
        run.unspilled, run.spilled = [], run.size
