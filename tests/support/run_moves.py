"""Watches all runs of all partitions: which rows of the table of transitions happen, and that nothing else does."""

from collections import Counter
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import pytest

from pipeline.assembly.marks import Marks
from pipeline.assembly.run_states import TRANSITIONS, Event, ImpossibleTransition, RunStates, State
from pipeline.assembly.spilled_run import SpilledRun
from topics.state import RunKey

Row = tuple[State, Event]


class RunMoves:
    """`rows` counts the moves; `check` compares where the runs are with where these moves have taken them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rows: Counter[Row] = Counter()
        self.impossible: list[ImpossibleTransition] = []
        self._expected: WeakKeyDictionary[RunStates, dict[RunKey, State]] = WeakKeyDictionary()
        leave, restore = RunStates._leave, RunStates.restore  # all other moves go through it

        def watched_leave(states: RunStates, key: RunKey, event: Event, known: State | None = None) -> State:
            before = states.state(key)
            assert known in (None, before)
            try:
                leave(states, key, event, known)
            except ImpossibleTransition as error:
                self.impossible.append(error)
                raise
            return self._moved(states, key, before, event)

        def watched_restore(states: RunStates, reopenable: Mapping[RunKey, SpilledRun], marks: Marks) -> None:
            for key in {*states.spilled, *marks}:
                known = Event.RESTORED_INTERRUPTED if key in reopenable else Event.RESTORED_CLOSED
                self._moved(states, key, State.UNKNOWN, Event.RESTORED_OPEN if key in states.spilled else known)
            restore(states, reopenable, marks)

        patch.setattr(RunStates, "_leave", watched_leave)
        patch.setattr(RunStates, "restore", watched_restore)

    def _moved(self, states: RunStates, key: RunKey, before: State, event: Event) -> State:
        self.rows[before, event] += 1
        expected = self._expected.setdefault(states, {})
        assert expected.get(key, State.UNKNOWN) is before
        expected[key] = TRANSITIONS[before, event]
        return expected[key]

    def check(self) -> None:
        """Each run is in one place, and got there by rows of the table."""
        assert self.impossible == []
        for states, expected in self._expected.items():
            places: list[tuple[RunKey, State]] = [
                *((key, State.OPEN) for key in states.open),
                *((key, State.SPILLED) for key in states.spilled),
                *((key, State.REOPENABLE) for key in states.reopenable),
                *((key, State.CLOSED) for key in states.marks if key not in states.reopenable),
            ]
            assert len(places) == len(dict(places))
            assert dict(places) == {key: state for key, state in expected.items() if state is not State.UNKNOWN}
            assert all(states.marks.get(key) is not None for key in states.reopenable)
