"""Every transition of a run's states through a real partition; and what becomes of one that the table does not hold."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.assembly import run_states
from pipeline.assembly.deadlines import overdue_spilled
from pipeline.assembly.limits import Limits
from pipeline.assembly.parked_runs import park
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import BEGUN
from pipeline.assembly.run_states import TRANSITIONS, Event, ImpossibleTransition, State, next_state
from pipeline.assembly.spilled_run import SpilledRun
from pipeline.assembly.spilled_runs import SPAN_MS
from tests.support.partitions import built, fed, partition_of, remembered
from tests.support.run_moves import Row, RunMoves
from tests.support.toy import START, THREAD, TOY, TOYS, Log, envelope, text
from tests.support.toy import Event as ToyEvent
from topics.state import RunKey
from turnmill.wire.envelope import encode

KEY = RunKey(None, THREAD, "r")
FINISH: ToyEvent = {"type": "finish"}
FAILURE: ToyEvent = {"type": "finish", "as": "error"}
POISON: ToyEvent = {"type": "poison"}
NEWER = {"toy": replace(TOY, handlers={**TOY.handlers, "poison": TOY.handlers["step"]})}


def a_run(*events: ToyEvent, end: str | None = None, **limits: Any) -> Partition:
    more = {} if end is None else {"end": end}
    return fed(envelope(0, [*text("a"), *events], **more), **limits)


def with_a_hole(**limits: Any) -> Partition:
    return fed(envelope(0, text("a")), envelope(4, text("e")), **limits)


def later(partition: Partition, ms: int = 1000) -> Partition:
    partition.tick(START + ms)
    return partition


def spilled(partition: Partition) -> Partition:
    """By the bound of memory, so that no deadline passes."""
    partition.limits = replace(partition.limits, open_bytes=0)
    partition.spill()
    return partition


def parked_with_a_hole(**limits: Any) -> Partition:
    partition = fed(envelope(0, text("a")), **limits)
    park(partition, 0)
    followed(partition, seq=4)
    built(partition, {})
    return partition


def restarted(before: Partition, *, marks: bool = True, dialects: Any = TOYS, **limits: Any) -> Partition:
    """`marks`: the worker lived long enough to deliver them."""
    if not marks:
        before.out.marks.clear()
    partition = Partition(dialects, Limits(**limits), before.next)
    partition.restore(remembered(before.out))
    return partition


def followed(partition: Partition, run_id: str = "r", **more: Any) -> Partition:
    """By the record that comes next in its run."""
    value = encode({**envelope(1, text("b"), run_id=run_id), **more})
    partition.feed([StoredRecord(value, partition.next, partition.now, b"key")])
    return partition


def without_a_row(patch: pytest.MonkeyPatch, row: Row) -> None:
    patch.setattr(run_states, "TRANSITIONS", {key: state for key, state in TRANSITIONS.items() if key != row})


SCENARIOS: Final[dict[Row, Callable[[], Partition]]] = {
    (State.UNKNOWN, Event.RECORD): a_run,
    (State.UNKNOWN, Event.RESTORED_OPEN): lambda: restarted(spilled(a_run())),
    (State.UNKNOWN, Event.RESTORED_INTERRUPTED): lambda: restarted(a_run(end="aborted")),
    (State.UNKNOWN, Event.RESTORED_CLOSED): lambda: restarted(a_run(end="complete")),
    (State.OPEN, Event.SPILL_DUE): lambda: spilled(later(a_run(spill_ms=100))),
    (State.OPEN, Event.MEMORY_BOUND): lambda: spilled(a_run()),
    (State.OPEN, Event.PUBLISHER_COMPLETE): lambda: a_run(end="complete"),
    (State.OPEN, Event.PUBLISHER_INTERRUPTED): lambda: a_run(end="aborted"),
    (State.OPEN, Event.STREAM_COMPLETE): lambda: later(a_run(FINISH, grace_ms=100)),
    (State.OPEN, Event.STREAM_INTERRUPTED): lambda: later(a_run(FAILURE, grace_ms=100)),
    (State.OPEN, Event.WINDOW_FULL): lambda: with_a_hole(window_events=0),
    (State.OPEN, Event.GAP_TIMEOUT): lambda: later(with_a_hole(gap_ms=100)),
    (State.OPEN, Event.IDLE_TIMEOUT): lambda: later(a_run(idle_ms=100)),
    (State.OPEN, Event.RUN_TIMEOUT): lambda: later(a_run(run_ms=100)),
    (State.OPEN, Event.TOO_LARGE): lambda: a_run(run_bytes=10),
    (State.OPEN, Event.UNBUILDABLE): lambda: a_run(POISON, end="complete"),
    (State.SPILLED, Event.RECORD): lambda: followed(spilled(a_run())),
    (State.SPILLED, Event.PUBLISHER_COMPLETE): lambda: later(  # a newer worker can build what an older one could not
        restarted(a_run(POISON, end="complete"), marks=False, dialects=NEWER, idle_ms=100)
    ),
    (State.SPILLED, Event.PUBLISHER_INTERRUPTED): lambda: followed(restarted(a_run(end="aborted"), marks=False), seq=0),
    (State.SPILLED, Event.STREAM_COMPLETE): lambda: later(spilled(a_run(FINISH, grace_ms=100))),
    (State.SPILLED, Event.STREAM_INTERRUPTED): lambda: later(spilled(a_run(FAILURE, grace_ms=100))),
    (State.SPILLED, Event.WINDOW_FULL): lambda: parked_with_a_hole(window_events=0),
    (State.SPILLED, Event.GAP_TIMEOUT): lambda: later(spilled(with_a_hole(gap_ms=100))),
    (State.SPILLED, Event.IDLE_TIMEOUT): lambda: later(restarted(spilled(a_run()), idle_ms=100)),
    (State.SPILLED, Event.RUN_TIMEOUT): lambda: later(restarted(spilled(a_run()), run_ms=100)),
    (State.SPILLED, Event.TOO_LARGE): lambda: followed(restarted(spilled(a_run()), run_bytes=10)),
    (State.SPILLED, Event.UNBUILDABLE): lambda: later(
        restarted(a_run(POISON, end="complete"), marks=False, idle_ms=100)
    ),
    (State.SPILLED, Event.GIVEN_UP): lambda: later(restarted(spilled(a_run()), dialects={}, idle_ms=100)),
    (State.REOPENABLE, Event.RECORD): lambda: followed(a_run(end="aborted")),
    (State.REOPENABLE, Event.REOPEN_WINDOW_OVER): lambda: later(a_run(end="aborted", reopen_ms=100)),
    (State.REOPENABLE, Event.REOPEN_BOUND): lambda: a_run(end="aborted", reopen_bytes=0),
    (State.REOPENABLE, Event.DEDUPE_WINDOW_OVER): lambda: later(a_run(end="aborted", dedupe_ms=100)),
    (State.REOPENABLE, Event.CLOSED_BOUND): lambda: a_run(end="aborted", closed_runs=0),
    (State.CLOSED, Event.DEDUPE_WINDOW_OVER): lambda: later(a_run(end="complete", dedupe_ms=100)),
    (State.CLOSED, Event.CLOSED_BOUND): lambda: a_run(end="complete", closed_runs=0),
}
# A run that is given up while it is open: only where the program is wrong. The tests at the end of this file do that.
ELSEWHERE: Final = {(State.OPEN, Event.GIVEN_UP)}


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row[0].name}-{row[1].name}")
def test_every_transition_happens(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    if row in ELSEWHERE:
        return
    moves = RunMoves(monkeypatch)
    partition = SCENARIOS[row]()
    assert moves.rows[row] == 1, "the row does not happen in its scenario"
    assert next(reversed(moves.rows)) == row, "it is the last that happens there"
    assert partition.runs.state(KEY) is TRANSITIONS[row]
    moves.check()


def test_no_scenario_is_left_of_a_row_that_is_gone() -> None:
    assert {*SCENARIOS} | ELSEWHERE == {*TRANSITIONS}


def test_what_the_table_does_not_hold_raises() -> None:
    for state, event in product(State, Event):
        if (state, event) not in TRANSITIONS:
            with pytest.raises(
                ImpossibleTransition, match=f"^{event.name} can't happen to a run that is {state.name}$"
            ):
                next_state(state, event)


# ---- a table that lacks a row stands for a program that is wrong: nothing is lost, and nothing else stands still


def values(partition: Partition) -> list[bytes | None]:
    return [refused.record.value for refused in partition.out.dead]


def neighbour_goes_on(partition: Partition) -> bool:
    before = len(partition.out.turns)
    followed(partition, run_id="other", seq=0, end="complete")
    return len(partition.out.turns) == before + 1 and partition.floor() == partition.next


def test_a_run_that_cant_be_opened_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = Partition(TOYS, Limits(), 0)
    with monkeypatch.context() as patch:
        without_a_row(patch, (State.UNKNOWN, Event.RECORD))
        followed(partition)
    assert [refused.detail for refused in partition.out.dead] == [
        "ImpossibleTransition: RECORD can't happen to a run that is UNKNOWN"
    ]
    assert partition.runs.state(KEY) is State.UNKNOWN
    assert neighbour_goes_on(partition)


@pytest.mark.parametrize(
    ("row", "events", "end", "limits"),
    [
        ((State.OPEN, Event.PUBLISHER_COMPLETE), [], "complete", {}),
        ((State.OPEN, Event.UNBUILDABLE), [POISON], "complete", {}),
        ((State.OPEN, Event.IDLE_TIMEOUT), [], None, {"idle_ms": 100}),
        ((State.OPEN, Event.MEMORY_BOUND), [], None, {}),
    ],
)
def test_an_open_run_that_cant_be_moved_is_given_up(
    row: Row, events: list[ToyEvent], end: str | None, limits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = RunMoves(monkeypatch)
    record = envelope(0, [*text("a"), *events], **({} if end is None else {"end": end}))
    with monkeypatch.context() as patch:
        without_a_row(patch, row)
        partition = spilled(later(fed(record, **limits)))
    assert moves.rows[State.OPEN, Event.GIVEN_UP] == 1
    assert values(partition) == [encode(record)]
    assert (partition.out.turns, partition.out.marks, partition.out.segments) == ([], [], [])
    assert partition.runs.state(KEY) is State.UNKNOWN
    assert neighbour_goes_on(partition)


def test_the_records_of_a_spilled_run_that_cant_be_moved_become_dead_letters_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = spilled(a_run({"type": "step"}, idle_ms=100))
    ((segment, _),) = partition.out.segments
    with monkeypatch.context() as patch:
        without_a_row(patch, (State.SPILLED, Event.IDLE_TIMEOUT))
        later(partition)
    assert [(unbuilt.run, unbuilt.segments) for unbuilt in partition.out.unbuilt] == [(KEY, (segment,))]
    assert (values(partition), partition.out.turns, partition.out.marks) == ([], [], [(segment, None)])
    assert partition.runs.state(KEY) is State.UNKNOWN
    assert neighbour_goes_on(partition)
    again = later(restarted(partition, idle_ms=100), 2000)
    assert (again.out.unbuilt, values(again), again.out.turns) == ([], [], [])


def test_time_costs_what_is_due_and_not_what_is_open() -> None:
    log = Log()
    for number in range(100):
        log.add(envelope(0, text("a"), run_id=f"r{number}"), at=number * SPAN_MS)
    partition = partition_of(log, open_bytes=0, idle_ms=100 * SPAN_MS)
    partition.spill()
    assert len(partition.runs.spilled) == 100
    assert partition.runs.spilled.due(START + 99 * SPAN_MS) == []
    partition.tick(START + 150 * SPAN_MS)
    assert {key.run_id for key in partition.runs.spilled} == {f"r{number}" for number in range(50, 100)}
    assert len(partition.out.turns) == 50


@pytest.mark.parametrize("spilling", [False, True])
def test_runs_that_are_over_at_once_are_closed_in_portions(spilling: bool) -> None:  # noqa: FBT001  # of a table
    """Their turns take more memory than the open runs; and nothing else goes on while they are made."""
    log = Log()
    for number in range(20):
        log.add(envelope(0, text("a"), run_id=f"r{number}"))
    partition = partition_of(log, open_bytes=0, idle_ms=1000, closing_bytes=5 * BEGUN)
    if spilling:
        partition.spill()
        partition.take_out()
    portions: list[list[str]] = []
    done = False
    while not done:
        done = partition.tick(START + 1001)
        portions.append([turn["run_id"] for turn in partition.take_out().turns])
    assert max(map(len, portions)) == 5
    assert [run for portion in portions for run in portion] == [f"r{number}" for number in range(20)]
    assert not partition.overdue


def test_runs_that_are_almost_over_do_not_keep_time_from_passing() -> None:
    log = Log()
    for number in range(20):
        log.add(envelope(0, text("a"), run_id=f"r{number}"), at=number % 2)
    partition = partition_of(log, open_bytes=0, idle_ms=1000, closing_bytes=1)
    partition.spill()
    assert [partition.tick(START + 1001) for _ in range(11)] == [*[False] * 10, True]
    assert (len(partition.out.turns), partition.open_runs()) == (10, 10)


def test_a_run_that_is_spilled_again_and_again_has_few_deadlines() -> None:
    log = Log()
    log.add(envelope(0, text("a")))
    partition = partition_of(log, open_bytes=0, idle_ms=1000)
    for seq in range(1, 100):
        partition.spill()
        log.add(envelope(seq, text("b")), at=seq)
        partition.feed(log.records[-1:])
    partition.spill()
    assert sum(map(len, partition.runs.spilled._due.values())) == 1
    partition.tick(START + seq + 1000)
    assert len(partition.runs.spilled) == 1
    partition.tick(START + seq + 1001)
    assert not partition.runs.spilled


TIMES = st.integers(0, 50)


@given(TIMES, TIMES, TIMES | st.none(), TIMES | st.none(), st.integers(0, 200))
def test_a_spilled_run_is_overdue_after_its_earliest_deadline(
    opened: int, last: int, gap: int | None, ended: int | None, now: int
) -> None:
    limits = Limits(idle_ms=40, run_ms=90, gap_ms=20, grace_ms=10)
    spilled = SpilledRun([], last, opened, gap_at=gap, ended_at=ended)
    assert (overdue_spilled(spilled, now, limits) is not None) == (now > spilled.due_at(limits))
