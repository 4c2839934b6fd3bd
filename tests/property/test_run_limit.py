"""Where a run is cut off depends on its records alone: not on their order, their batches, restarts or neighbours."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.assembly import finishing as finishing_module
from pipeline.assembly import oversized as oversized_module
from pipeline.assembly import partition as partition_module
from pipeline.assembly import weight as weight_module
from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.restored_state import RestoredState
from tests.property.test_assembly import disordered, mixed
from tests.support.toy import TOYS, envelope, text
from topics import state, turn_record
from topics.state import Segment
from topics.turn_record import TurnRecord

LIMIT = 1500
Results = tuple[dict[str, bytes], set[bytes]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finishing_module, "LARGE_RUN_BYTES", 0)
    monkeypatch.setattr(oversized_module, "FIRST_BYTES", 600)


def weigh_all_but(monkeypatch: pytest.MonkeyPatch, small: int, light: int) -> None:
    """Records of `small` bytes weigh no more than that, while their run weighs `light` at most."""
    for module in (partition_module, weight_module):
        monkeypatch.setattr(module, "LARGE_RECORD", small)
        monkeypatch.setattr(module, "LIGHT", light)


def a_run(number: int, rng: random.Random, *, small_values: bool = False) -> list[dict[str, Any]]:
    """Records of a text each; more than one of two runs has more than the limit."""
    count = rng.randint(1, 12)
    events = [text("x" * rng.randint(1, 300)) for _ in range(count)]
    if small_values:
        events = [rng.choice([some, [{"type": "note", "data": [{}] * rng.randint(0, 9)}]]) for some in events]
    records = [envelope(n, some, run_id=f"run-{number}") for n, some in enumerate(events)]
    records[-1]["end"] = "complete"
    return records


def fits(record: TurnRecord) -> bool:
    return len(turn_record.encode(record)) <= LIMIT


class Topics:
    """What was delivered so far."""

    def __init__(self) -> None:
        self.turns: dict[str, bytes] = {}
        self.dead: set[bytes] = set()
        self.state: dict[str, bytes] = {}

    def take(self, partition: Partition) -> None:
        out = partition.take_out()
        self.state.update(out.segments)
        for oversized in out.oversized:
            out.add(partition.finishing.cut_off(oversized, list(self.segments(oversized.segments))))
        self.turns |= {turn["turn_id"]: turn_record.encode({**turn, "revision": 0}) for turn in out.turns}
        self.dead |= {refused.record.value or b"" for refused in out.dead}
        for name, value in out.marks:
            if value is None:
                self.state.pop(name, None)
            else:
                self.state[name] = value

    def segments(self, names: tuple[str, ...]) -> Iterator[Segment]:
        for name in names:
            _, entry = state.decode(name.encode(), self.state[name])
            assert isinstance(entry, Segment)
            yield entry

    def remembered(self) -> RestoredState:
        found = RestoredState()
        for name, value in self.state.items():
            found.take(name.encode(), value)
        return found


def partition_at(start: int, *, of_turns: bool) -> Partition:
    """`of_turns`: what is bounded is the size of a turn, else that of a run's records."""
    limits = Limits(gap_ms=10**9, idle_ms=10**9, run_ms=10**9, spill_ms=40, run_bytes=10**9 if of_turns else LIMIT)
    return Partition(TOYS, limits, start, fits=fits if of_turns else None)


def straight(runs: list[list[dict[str, Any]]], *, of_turns: bool) -> Results:
    """The results of records in order, in one batch."""
    partition, topics = partition_at(0, of_turns=of_turns), Topics()
    partition.feed(mixed([[record for run in runs for record in run]], random.Random(0)))
    topics.take(partition)
    return topics.turns, topics.dead


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), by=st.sampled_from([0, 2, 20]), of_turns=st.booleans(), lost=st.booleans())
def test_a_run_is_cut_off_at_the_same_record(seed: int, by: int, *, of_turns: bool, lost: bool) -> None:
    check(seed, by, of_turns=of_turns, lost=lost, small_values=False)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9), by=st.sampled_from([0, 2, 20]), light=st.sampled_from([0, 300, 700, 1200]))
def test_so_is_one_of_many_small_values(monkeypatch: pytest.MonkeyPatch, seed: int, by: int, light: int) -> None:
    weigh_all_but(monkeypatch, 300, light)
    check(seed, by, of_turns=False, lost=seed % 2 == 0, small_values=True)


def check(seed: int, by: int, *, of_turns: bool, lost: bool, small_values: bool) -> None:
    """`lost`: what came since the last checkpoint before a restart was never delivered."""
    rng = random.Random(seed)
    runs = [a_run(number, rng, small_values=small_values) for number in range(3)]
    log = mixed([disordered(run, rng, by) for run in runs], rng)
    topics, floor = Topics(), 0
    partition = partition_at(0, of_turns=of_turns)
    at = 0
    while at < len(log):
        if rng.random() < 0.1:
            if not lost:
                topics.take(partition)
            partition = partition_at(floor, of_turns=of_turns)
            partition.restore(topics.remembered())
            at = floor
        some = rng.randint(1, 4)
        partition.feed(log[at : at + some])
        at += some
        if rng.random() < 0.3:
            partition.tick(partition.now)
            partition.spill()
        if rng.random() < 0.3:
            floor = partition.floor()
            topics.take(partition)
    topics.take(partition)
    assert (topics.turns, topics.dead) == straight(runs, of_turns=of_turns)
    assert partition.open_runs() == 0


@given(seed=st.integers(0, 10**9), of_turns=st.booleans())
def test_every_record_is_in_a_turn_or_a_dead_letter(seed: int, *, of_turns: bool) -> None:
    rng = random.Random(seed)
    run = a_run(0, rng)
    turns, dead = straight([run], of_turns=of_turns)
    [value] = turns.values() or [b""]
    kept = turn_record.decode(value)["events"] if value else 0
    assert kept + len(dead) == len(run)
    size = sum(len(record.value) for record in mixed([run], rng))
    if not of_turns:
        assert bool(dead) == (size > LIMIT)
    if dead:
        assert (turn_record.decode(value)["turn"] or {})["interruption"]["reason"] == "too_large"
        assert len(value) <= LIMIT or not of_turns
