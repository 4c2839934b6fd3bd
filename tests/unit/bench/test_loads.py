"""The benchmark's loads: what is measured must be what is said."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.run import StoredRecord
from pipeline.bench.loads import AT_ONCE, LOADS, Load
from pipeline.bench.streams import STREAMS
from pipeline.dialects import DIALECTS


def small(dialect: str, per_record: int, runs: int = 20) -> Load:
    return replace(LOADS["text-8"], runs=runs, per_record=per_record, dialect=dialect)


@pytest.mark.parametrize("per_record", [1, 8])
@pytest.mark.parametrize("dialect", STREAMS)
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
