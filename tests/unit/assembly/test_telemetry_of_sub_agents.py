"""What telemetry tells of sub-agents: once, in the thread that it is of, as its stored turn has it."""

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.results import Out
from pipeline.dialects import DIALECTS
from tests.property.records import envelope
from tests.support.sub_agents import delegating_run
from turnmill.wire.envelope import encode


def assembled() -> Out:
    partition = Partition(DIALECTS, Limits(), 0)
    record = {**envelope("claude-code", delegating_run(), 0), "end": "complete"}
    partition.feed([StoredRecord(encode(record), 0, 1)])
    return partition.out


def test_tokens_of_a_sub_agent_are_told_in_its_thread() -> None:
    out = assembled()
    stored = {
        turn["thread_id"]: [m["usage"]["output_tokens"] for m in turn["turn"]["messages"] if "usage" in m]
        for turn in out.turns
        if turn["turn"] is not None
    }
    told: dict[str, list[int]] = {}
    usages = [record for record in out.telemetry if record["type"] == "data-sys-usage"]
    for record in usages:
        told.setdefault(record["thread_id"], []).append(record["data"]["output_tokens"])
    assert sorted(stored.values()) == [[11, 5], [23]]
    assert told == stored
    assert [record["agent_id"] for record in usages if record["data"]["output_tokens"] == 23] == ["finder"]


def test_a_turn_is_told_under_its_own_thread_and_agent() -> None:
    out = assembled()
    told = [record for record in out.telemetry if record["type"] == "data-sys-turn"]
    turns = [turn for turn in out.turns if turn["turn"] is not None and turn["turn"]["turn_type"] == "agent"]
    assert [(one["thread_id"], one["agent_id"], one["data"]["responses"]) for one in told] == [
        (turn["thread_id"], turn["agent_id"], len([m for m in turn["turn"]["messages"] if "usage" in m]))
        for turn in turns
    ]
    assert [one["agent_id"] for one in told][1:] == ["finder"]
    assert len({(one["thread_id"], one["seq"]) for one in out.telemetry}) == len(out.telemetry)


def test_a_sub_agents_turns_name_the_thread_that_started_it() -> None:
    parent, child = [turn for turn in assembled().turns if turn["turn"] is not None]
    assert child["parent"] == {"thread_id": parent["thread_id"]}
    assert [link["relation"] for link in child["links"] if link["thread_id"] == parent["thread_id"]] == ["spawned_from"]
