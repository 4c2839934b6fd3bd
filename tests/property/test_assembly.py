"""Whatever the records' batches, order, doubles and neighbours, wherever a worker restarts: the same bytes."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.dialects import DIALECTS
from tests.support.fleet import START, AgentRun, fleet, record_bytes
from tests.support.toy import said
from topics import turn_record
from topics.turn_record import TurnRecord
from turnmill.wire.envelope import encode

Envelope = dict[str, Any]
LIMITS = Limits(gap_ms=10**9, idle_ms=10**9, run_ms=10**9, spill_ms=40)


def rebatched(run: AgentRun, rng: random.Random) -> list[Envelope]:
    """The same events in other records; some of them overlap, some come twice."""
    first, last = run.envelopes[0], run.envelopes[-1]
    events = [event for envelope in run.envelopes for event in envelope["events"]]
    times = [envelope["ts"] + dt for envelope in run.envelopes for dt in envelope["dt"]]
    fixed = {key: value for key, value in first.items() if key not in ("seq", "ts", "events", "dt", "run")}
    records = []
    start = 0
    while start < len(events):
        stop = min(len(events), start + rng.randint(1, 9))
        begin = max(0, start - rng.choice([0, 0, 0, 1, 4]))
        dt = [time - times[begin] for time in times[begin:stop]]
        record = {**fixed, "seq": begin, "ts": times[begin], "events": events[begin:stop], "dt": dt}
        if begin == 0:
            record["run"] = first["run"]
        if stop == len(events):
            record["end"] = last["end"]
        records.append(record)
        start = stop
    return records


def disordered(records: list[Envelope], rng: random.Random, by: int) -> list[Envelope]:
    """Each record up to `by` places from its own, and some twice."""
    doubled = [record for record in records for _ in range(rng.choice([1, 1, 1, 2]))]
    return [
        record
        for _, record in sorted(
            ((n + rng.uniform(0, by), record) for n, record in enumerate(doubled)), key=lambda x: x[0]
        )
    ]


def mixed(runs: list[list[Envelope]], rng: random.Random) -> list[StoredRecord]:
    """One partition's log."""
    waiting = [iter(run) for run in runs]
    log: list[StoredRecord] = []
    while waiting:
        one = rng.choice(waiting)
        record = next(one, None)
        if record is None:
            waiting.remove(one)
        else:
            log.append(StoredRecord(encode(record), len(log), START + 5 * len(log)))
    return log


class Topics:
    """What was delivered so far."""

    def __init__(self) -> None:
        self.turns: list[TurnRecord] = []
        self.state: dict[str, bytes] = {}
        self.telemetry: list[tuple[str, int]] = []

    def take(self, partition: Partition) -> None:
        out = partition.out
        assert not out.dead, out.dead[0].detail
        self.turns += out.turns
        self.telemetry += [(record["run_id"], record["seq"]) for record in out.telemetry if not record.get("derived")]
        self.state.update(out.segments)
        for name, value in out.marks:
            if value is None:
                self.state.pop(name, None)
            else:
                self.state[name] = value
        partition.take_out()

    def remembered(self) -> RestoredState:
        found = RestoredState()
        for name, value in self.state.items():
            found.take(name.encode(), value)
        return found


def right(runs: list[AgentRun]) -> set[bytes]:
    return {data for run in runs for data in record_bytes(run)}


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9), runs=st.integers(1, 5), by=st.sampled_from([0, 2, 20]), most=st.integers(1, 40))
def test_batches_doubles_disorder_and_neighbours_change_nothing(seed: int, runs: int, by: int, most: int) -> None:
    rng = random.Random(seed)
    those = fleet(seed, runs, words=8)
    log = mixed([disordered(rebatched(run, rng), rng, by) for run in those], rng)
    partition = Partition(DIALECTS, LIMITS, 0)
    for start in range(0, len(log), most):
        partition.feed(log[start : start + most])
        partition.tick(partition.now)
    assert not partition.out.dead
    assert {turn_record.encode(record) for record in partition.out.turns} == right(those)
    assert len(partition.out.turns) == len(right(those))
    assert partition.open_runs() == 0
    assert partition.floor() == len(log)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9), restarts=st.integers(1, 8), lost=st.booleans())
def test_a_restart_anywhere_changes_nothing(seed: int, restarts: int, lost: bool) -> None:  # noqa: FBT001
    """`lost`: what came since the last checkpoint was never delivered."""
    rng = random.Random(seed)
    those = fleet(seed, 4, words=8)
    log = mixed([disordered(rebatched(run, rng), rng, 3) for run in those], rng)
    topics, floor = Topics(), 0
    partition = Partition(DIALECTS, LIMITS, 0)
    stops = set(rng.choices(range(len(log)), k=restarts))
    for at in range(len(log) + 1):
        if at in stops:
            if not lost:
                topics.take(partition)
            partition = Partition(DIALECTS, LIMITS, floor)
            partition.restore(topics.remembered())
            partition.feed(log[floor:at])
        partition.feed(log[at : at + 1])
        if rng.random() < 0.2:
            partition.tick(partition.now)
            partition.spill()
        if rng.random() < 0.2:
            floor = partition.floor()
            topics.take(partition)
    topics.take(partition)
    assert {turn_record.encode(record) for record in topics.turns} == right(those)
    assert partition.open_runs() == 0
    assert len(set(topics.telemetry)) == sum(
        event["type"].startswith("data-sys-")
        for run in those
        for envelope in run.envelopes
        for event in envelope["events"]
    )


@settings(max_examples=40)
@given(seed=st.integers(0, 10**9))
def test_a_run_that_was_closed_too_early_ends_up_the_same(seed: int) -> None:
    """Short deadlines between records: the turn is replaced by newer revisions, the last of which is right."""
    rng = random.Random(seed)
    limits = Limits(gap_ms=20, idle_ms=20, run_ms=10**9, spill_ms=10, grace_ms=10**9, reopen_ms=10**9)
    those = fleet(seed, 3, words=6)
    log = mixed([disordered(rebatched(run, rng), rng, 3) for run in those], rng)
    partition = Partition(DIALECTS, limits, 0)
    turns: dict[str, TurnRecord] = {}
    for record in log:
        partition.feed([record])
        if rng.random() < 0.3:
            partition.tick(partition.now + rng.choice([0, 15, 30]))
            partition.spill()
    assert not partition.out.dead
    for record in partition.out.turns:
        turns[record["turn_id"]] = record
    assert {said(record) for record in turns.values()} == {said(turn_record.decode(data)) for data in right(those)}
