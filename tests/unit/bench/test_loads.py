"""The benchmark's loads: what is measured must be what is said."""

from dataclasses import replace

import orjson
import pytest

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from tests.bench.loads import AT_ONCE, LOADS, Load, Script, brief, fleet, staggered, text, unfinished
from tests.bench.streams import STREAMS


def small(dialect: str, per_record: int, runs: int = 20) -> Load:
    return text("small", "a few runs", runs, per_record, dialect=dialect)


@pytest.mark.parametrize("per_record", [1, 8])
# A trace has a turn for each agent in it, and the words of its user.
@pytest.mark.parametrize("dialect", [name for name in STREAMS if name != "otel"])
def test_each_run_becomes_a_complete_turn(dialect: str, per_record: int) -> None:
    load = small(dialect, per_record)
    partition = Partition(DIALECTS, Limits(), 0)
    partition.feed([StoredRecord(value, n, n, key) for n, (key, value) in enumerate(load.records())])
    assert partition.out.dead == []
    assert [turn["status"] for turn in partition.out.turns] == ["complete"] * load.runs
    assert sum(turn["events"] for turn in partition.out.turns) == load.events
    assert len({turn["turn_id"] for turn in partition.out.turns}) == load.runs


def test_the_same_load_is_the_same_records() -> None:
    assert list(small("vercel-ai", 8).records()) == list(small("vercel-ai", 8).records())


def test_so_many_runs_are_open_at_once() -> None:
    load = small("vercel-ai", 8, runs=AT_ONCE + 50)
    open_now: set[str] = set()
    most = 0
    for _, value in load.records():
        envelope = orjson.loads(value)
        open_now.add(envelope["thread_id"])
        most = max(most, len(open_now))
        if "end" in envelope:
            open_now.remove(envelope["thread_id"])
    assert most == AT_ONCE
    assert not open_now


@pytest.mark.parametrize("name", LOADS)
def test_what_is_expected_of_a_load_comes_out(name: str) -> None:
    load = replace(LOADS[name], runs=7)
    partition = Partition(DIALECTS, Limits(), 0)
    partition.feed([StoredRecord(value, n, n, key) for n, (key, value) in enumerate(load.records())])
    assert len(partition.out.turns) == load.outcome.turns == 7
    assert len(partition.out.dead) == load.outcome.dead == 0
    assert sum(turn["events"] for turn in partition.out.turns) == load.events


def test_recorded_runs_take_turns_and_their_faults_are_expected() -> None:
    good = Script("vercel-ai", STREAMS["vercel-ai"](["Hi"]))
    bad = Script("vercel-ai", [*STREAMS["vercel-ai"](["Hi"])[:-1], {"type": "text-delta", "id": "none", "delta": "x"}])
    load = fleet([good, bad, good], runs=5)  # good, bad, good, good, bad
    assert load.events == 3 * len(good.events) + 2 * len(bad.events)
    assert load.outcome.turns == 5
    assert load.outcome.dead == 2


def test_open_turns_stay_open_with_their_text() -> None:
    load = unfinished(3, 5_000)
    partition = Partition(DIALECTS, Limits(), 0)
    partition.feed([StoredRecord(value, n, n, key) for n, (key, value) in enumerate(load.records())])
    assert partition.open_runs() == 3
    assert partition.out.turns == []
    for run in partition.runs.open.values():
        assert sum(map(len, run.builder.open_text["t1"].chunks)) == 5_000


def test_staggered_runs_have_150_events_on_average() -> None:
    load = staggered(26)
    assert load.events == 26 * 150


def test_a_short_answer_is_one_record_and_one_turn() -> None:
    load = brief("closed", 5)
    assert len(list(load.records())) == 5
    assert load.outcome.turns == 5
    assert load.outcome.dead == 0


def test_the_next_short_answers_are_other_runs() -> None:
    keys = {key for name in ("closed-10", "closed-20") for key, _ in brief(name, 10).records()}
    assert len(keys) == 20
