"""The state machine of runs: states, events, transitions, and the containers of a partition's runs, one per state.

The whole state machine is in this file. `Partition` and `deadlines` determine what has happened and name it as an
`Event`; TRANSITIONS defines the next state; only `RunStates` moves runs, and nothing else may write to its containers.

Each run is kept in the one container of its state. The next record of an open run is no event: it changes the run, but
not its state, so that the hot path only looks a run up in `RunStates.open`.

A transition that is not in the table is an error of this program. `ImpossibleTransition` is raised before anything has
changed. `Partition` catches it for one run at a time: neither the other runs nor the partition's offsets wait for it,
and all raw records of the run become dead letters, also those on the state topic.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from pipeline.assembly.expected_record import Entry, ExpectedRecord
from pipeline.assembly.limits import Limits
from pipeline.assembly.marks import Marks
from pipeline.assembly.run import Run
from pipeline.assembly.segment_names import SegmentNames
from pipeline.assembly.spilled_run import SpilledRun
from pipeline.assembly.spilled_runs import SpilledRuns
from topics.state import Closed, RunKey
from turnmill.shares import Shares


class State(StrEnum):
    """The states of a run's life."""

    UNKNOWN = "it was never seen, or it is forgotten: the next record opens it"
    OPEN = "it is in memory, and some of its records are on the events topic only: the floor waits for it"
    SPILLED = "it is open, and all of its records are on the state topic: the floor has passed it"
    REOPENABLE = "its turn was handed over as interrupted; a late record opens it again, and its turn is replaced"
    CLOSED = "its turn was handed over for good; its mark tells a late record from a new run"


UNKNOWN, OPEN, SPILLED, REOPENABLE, CLOSED = State  # an attribute of an Enum takes 100 ns


class Event(StrEnum):
    """The events of a run's life. Its end may be complete or interrupted; each is an event of its own."""

    RECORD = "a record brings something new"
    SPILL_DUE = "the oldest record that is not spilled has waited for longer than `spill_after`"
    MEMORY_BOUND = "the open runs hold more bytes than they may, and this is the oldest"
    PUBLISHER_COMPLETE = "the publisher's `end` came; the run is complete"
    PUBLISHER_INTERRUPTED = "the publisher's `end` came; the run broke off, or lacks events"
    STREAM_COMPLETE = "the stream's terminal event came, `terminal_grace` ago; the run is complete"
    STREAM_INTERRUPTED = "the stream's terminal event came, `terminal_grace` ago; the run broke off"
    WINDOW_FULL = "more than `window_events` events, or `window_bytes`, wait for one that is missing"
    GAP_TIMEOUT = "an event has been missing for longer than `gap_timeout`"
    IDLE_TIMEOUT = "no record has come for longer than `idle_timeout`"
    RUN_TIMEOUT = "it has been open for longer than `run_timeout`"
    TOO_LARGE = "it has more than `run_bytes`, or its turn is larger than a record may be: it ends as interrupted"
    UNBUILDABLE = "it is over, and building its turn failed"
    GIVEN_UP = "its records can't be read, or it can't be moved: the worker parts with it"
    REOPEN_WINDOW_OVER = "it was closed longer ago than `reopen_window`"
    REOPEN_BOUND = "the limit of reopenable bytes is reached; the run is the oldest of the tenant that has most"
    DEDUPE_WINDOW_OVER = "it was closed longer ago than `dedupe_window`"
    CLOSED_BOUND = "the limit of remembered closed runs is reached; the run is the oldest of the tenant that has most"
    RESTORED_OPEN = "a restart finds records on the state topic that are newer than any mark"
    RESTORED_INTERRUPTED = "a restart finds the mark of an interrupted run, and its records"
    RESTORED_CLOSED = "a restart finds a mark and no records, or the mark of a complete run"


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (UNKNOWN, Event.RECORD): OPEN,
    (UNKNOWN, Event.RESTORED_OPEN): SPILLED,
    (UNKNOWN, Event.RESTORED_INTERRUPTED): REOPENABLE,
    (UNKNOWN, Event.RESTORED_CLOSED): CLOSED,
    (OPEN, Event.SPILL_DUE): SPILLED,
    (OPEN, Event.MEMORY_BOUND): SPILLED,
    (OPEN, Event.PUBLISHER_COMPLETE): CLOSED,
    (OPEN, Event.PUBLISHER_INTERRUPTED): REOPENABLE,
    (OPEN, Event.STREAM_COMPLETE): CLOSED,
    (OPEN, Event.STREAM_INTERRUPTED): REOPENABLE,
    (OPEN, Event.WINDOW_FULL): REOPENABLE,
    (OPEN, Event.GAP_TIMEOUT): REOPENABLE,
    (OPEN, Event.IDLE_TIMEOUT): REOPENABLE,
    (OPEN, Event.RUN_TIMEOUT): REOPENABLE,
    (OPEN, Event.TOO_LARGE): CLOSED,
    (OPEN, Event.UNBUILDABLE): REOPENABLE,
    (OPEN, Event.GIVEN_UP): UNKNOWN,
    (SPILLED, Event.RECORD): OPEN,
    (SPILLED, Event.PUBLISHER_COMPLETE): CLOSED,  # its worker died before it could write the mark
    (SPILLED, Event.PUBLISHER_INTERRUPTED): REOPENABLE,  # likewise
    (SPILLED, Event.STREAM_COMPLETE): CLOSED,
    (SPILLED, Event.STREAM_INTERRUPTED): REOPENABLE,
    (SPILLED, Event.WINDOW_FULL): REOPENABLE,  # likewise; or a parked run, which is built when it is over
    (SPILLED, Event.GAP_TIMEOUT): REOPENABLE,
    (SPILLED, Event.IDLE_TIMEOUT): REOPENABLE,
    (SPILLED, Event.RUN_TIMEOUT): REOPENABLE,
    (SPILLED, Event.TOO_LARGE): CLOSED,  # the limit was lowered
    (SPILLED, Event.UNBUILDABLE): REOPENABLE,
    (SPILLED, Event.GIVEN_UP): UNKNOWN,
    (REOPENABLE, Event.RECORD): OPEN,
    (REOPENABLE, Event.REOPEN_WINDOW_OVER): CLOSED,
    (REOPENABLE, Event.REOPEN_BOUND): CLOSED,
    (REOPENABLE, Event.DEDUPE_WINDOW_OVER): UNKNOWN,
    (REOPENABLE, Event.CLOSED_BOUND): UNKNOWN,
    (CLOSED, Event.DEDUPE_WINDOW_OVER): UNKNOWN,
    (CLOSED, Event.CLOSED_BOUND): UNKNOWN,
}


class ImpossibleTransition(LookupError):
    """An event that can't happen to a run in its state: an error of this program, never of a publisher."""


def next_state(state: State, event: Event) -> State:
    """Return the state that follows `state`. Raises ImpossibleTransition."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ImpossibleTransition(f"{event.name} can't happen to a run that is {state.name}") from None


class RunStates:
    """The runs of a partition by their state. Closed ones are bounded in number, reopenable ones in bytes, too.

    The tenants share these limits: beyond them, the oldest run of the tenant with the most is removed, so that a tenant
    that closes thousands of runs displaces its own. `release` is called with each run whose records on the state topic
    are no longer needed.
    """

    def __init__(self, limits: Limits, segments: SegmentNames, release: Callable[[RunKey], None]) -> None:
        self.limits = limits
        self.release = release
        self.open: dict[RunKey, Run] = {}  # by the oldest record that is not spilled, oldest first
        self.expecting: dict[bytes, Entry] = {}  # the expected records of open runs, by their heads
        self.spilled = SpilledRuns(limits, segments)
        self.reopenable: OrderedDict[RunKey, SpilledRun] = OrderedDict()  # in the order in which they were closed
        self.marks = Marks()  # of reopenable and closed runs
        self._reopenable_of: dict[str | None, OrderedDict[RunKey, None]] = {}  # the same by tenant
        self._reopenable_bytes = Shares()

    @property
    def reopenable_bytes(self) -> int:
        """The bytes of all records of reopenable runs."""
        return self._reopenable_bytes.total

    def state(self, key: RunKey) -> State:
        """Return the state of a run."""
        if key in self.open:
            return OPEN
        if key in self.spilled:
            return SPILLED
        if key in self.reopenable:
            return REOPENABLE
        return UNKNOWN if self.marks.get(key) is None else CLOSED

    def after(self, key: RunKey, event: Event) -> State:
        """Return the state in which `event` would leave a run. Raises ImpossibleTransition."""
        return next_state(self.state(key), event)

    def resume(self, key: RunKey, run: Run, before: State) -> None:
        """Open a run at a record, or reopen it; its state was `before`. Raises ImpossibleTransition."""
        self._leave(key, Event.RECORD, before)
        self.open[key] = run

    def expect(self, run: Run, expected: ExpectedRecord | None) -> None:
        """Set the form of the record that an open run expects next; None: none in particular."""
        before = run.expected
        if before is not None and before.head in self.expecting and self.expecting[before.head][4] is run:
            del self.expecting[before.head]
        run.expected = expected
        if expected is not None:
            self.expecting[expected.head] = expected.entry(run)

    def sort_open(self) -> None:
        """Restore the order of the open runs."""
        self.open = dict(sorted(self.open.items(), key=lambda item: item[1].first_offset))

    def spill(self, key: RunKey, event: Event) -> None:
        """Move an open run, all of whose records are on the state topic. Raises ImpossibleTransition."""
        run = self.open[key]
        self._leave(key, event)
        self.spilled.put(key, SpilledRun.of(run))

    def replace_spilled(self, key: RunKey, spilled: SpilledRun) -> None:
        """Replace a spilled run that was parked, or built again."""
        self.spilled.remove(key)
        self.spilled.put(key, spilled)

    def close(self, key: RunKey, event: Event, run: Run, closed: Closed) -> None:
        """Close an open or spilled run, whose turn was handed over. Raises ImpossibleTransition."""
        if self._leave(key, event) is REOPENABLE:
            self._put_reopenable(key, SpilledRun.of(run))
        self.marks.add(key, closed)
        self._keep_within_bounds()

    def give_up(self, key: RunKey) -> None:
        """Give up an open or spilled run that can't go on. Raises ImpossibleTransition."""
        self._leave(key, Event.GIVEN_UP)

    def expire(self, now: int) -> list[tuple[RunKey, Closed]]:
        """Remove runs and marks that have expired at `now` (broker ms); return the marks to remove from the topic."""
        while self.reopenable:
            key = next(iter(self.reopenable))
            closed = self.marks.get(key)
            if closed is not None and now - closed.at <= self.limits.reopen_ms:
                break
            self._leave(key, Event.REOPEN_WINDOW_OVER)
        forgotten = []
        while (oldest := self.marks.oldest()) is not None and now - oldest[1].at > self.limits.dedupe_ms:
            self._leave(oldest[0], Event.DEDUPE_WINDOW_OVER)
            forgotten.append(oldest)
        return forgotten

    def restore(self, reopenable: Mapping[RunKey, SpilledRun], marks: Marks) -> None:
        """Restore the state that another worker left, before the first record; `marks` include those of `reopenable`.

        Its open runs are among the spilled ones already.

        The table is consulted once for each kind, since there are tens of thousands of marks.
        """
        for event, count in (
            (Event.RESTORED_OPEN, len(self.spilled)),
            (Event.RESTORED_INTERRUPTED, len(reopenable)),
            (Event.RESTORED_CLOSED, len(marks) - len(reopenable)),
        ):
            if count:
                next_state(UNKNOWN, event)
        self.marks = marks.by_age()
        for key in self.marks if reopenable else ():
            if key in reopenable:
                self._put_reopenable(key, reopenable[key])
        self._keep_within_bounds()

    def _keep_within_bounds(self) -> None:
        if self.marks.shares.total > self.limits.closed_runs:
            while self.marks.shares.total > self.limits.closed_runs:
                self._leave(self.marks.of_most(), Event.CLOSED_BOUND)
            self.marks = self.marks.packed()
        while self._reopenable_bytes.total > self.limits.reopen_bytes:
            self._leave(next(iter(self._reopenable_of[self._reopenable_bytes.most()])), Event.REOPEN_BOUND)

    def _put_reopenable(self, key: RunKey, spilled: SpilledRun) -> None:
        self.reopenable[key] = spilled
        self._reopenable_of.setdefault(key.tenant, OrderedDict())[key] = None
        self._reopenable_bytes.add(key.tenant, spilled.size)

    def _remove_reopenable(self, key: RunKey) -> None:
        self._reopenable_bytes.add(key.tenant, -self.reopenable.pop(key).size)
        others = self._reopenable_of[key.tenant]
        del others[key]
        if not others:
            del self._reopenable_of[key.tenant]

    def _leave(self, key: RunKey, event: Event, before: State | None = None) -> State:
        """Remove a run from its container; return its next state. Raises ImpossibleTransition before any change."""
        before = self.state(key) if before is None else before
        after = next_state(before, event)
        if before is OPEN:
            self.expect(self.open.pop(key), None)
        elif before is SPILLED:
            self.spilled.remove(key)
        elif before is REOPENABLE:
            self._remove_reopenable(key)
        if before in (REOPENABLE, CLOSED) and after is not CLOSED:
            self.marks.remove(key)
        if after is CLOSED or (before is REOPENABLE and after is UNKNOWN):
            self.release(key)
        return after
