"""A run that was told after the fact: its turns say so, and telemetry doesn't know it."""

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.results import Out
from pipeline.dialects import DIALECTS
from pipeline.observability.turn_spans import turn_span
from pipeline.stores.costs.rows import usage_rows
from tests.property.records import envelope
from tests.support.sub_agents import delegating_run
from turnmill.wire.envelope import encode


def out_of(run: dict[str, object]) -> Out:
    partition = Partition(DIALECTS, Limits(), 0)
    record = {**envelope("claude-code", delegating_run(), 0), "end": "complete", "run": run}
    partition.feed([StoredRecord(encode(record), 0, 1)])
    return partition.out


def test_an_imported_run() -> None:
    live, told = out_of({}), out_of({"imported": True})
    assert live.telemetry
    assert told.telemetry == []
    assert [turn["hash"] for turn in told.turns] == [turn["hash"] for turn in live.turns]
    assert all(turn["imported"] for turn in told.turns), "its sub-agents', too"
    assert not any("imported" in turn for turn in live.turns)
    origins = [{row["origin"] for turn in out.turns for row in usage_rows(turn)} for out in (live, told)]
    assert origins == [{""}, {"import"}]
    spans = [[turn_span(turn) for turn in out.turns if turn["turn"]] for out in (live, told)]
    assert all(spans[0])
    assert not any(spans[1])


def test_facts_about_the_thread_come_with_the_run() -> None:
    facts = {"title": "Oven", "metadata": {"cwd": "/home/ada"}}
    record = next(turn for turn in out_of({"thread": facts}).turns if "thread" in turn)
    assert record["thread"] == {**facts, "meta:labels": {"project": "ada"}}
    assert "thread" not in out_of({"thread": "Oven"}).turns[-1]
