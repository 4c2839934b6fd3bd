"""A run that is over: its records, their identity, facts and hash."""

from typing import Any

import pytest

from pipeline.assembly.builder import Builder
from pipeline.assembly.finish import finish
from pipeline.assembly.parts import Context
from pipeline.turns.canonical import turn_hash
from topics import turn_record
from turnmill.identity import turn_id

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"


@pytest.fixture
def builder() -> Builder:
    return Builder(Context(THREAD, "r", "a", "toy"), 1000)


def said(builder: Builder, content: str) -> None:
    builder.text_start("t").chunks.append(content)
    builder.text_end("t")


def test_user_and_agent_turn(builder: Builder) -> None:
    builder.user_turn([{"part_kind": "user-prompt", "content": "hi"}], client_metadata={"x": 1})
    said(builder, "hello")
    user, agent = finish(builder, "complete", events=3, revision=2)
    assert user["turn"] == {
        "turn_type": "user",
        "submitted_at": "1970-01-01T00:00:01.000Z",
        "parts": [{"part_kind": "user-prompt", "content": "hi"}],
        "client_metadata": {"x": 1},
        "meta:turn_id": turn_id(THREAD, "r", "user"),
        "meta:run_id": "r",
    }
    assert (user["turn_id"], agent["turn_id"]) == (turn_id(THREAD, "r", "user"), turn_id(THREAD, "r"))
    assert (user.get("ordinal"), agent.get("ordinal")) == (None, 1)
    assert [(r["revision"], r["events"], r["status"]) for r in (user, agent)] == [(2, 3, "complete")] * 2
    assert "agents" not in user
    assert agent["agents"] == [{"agent_id": "a", "agent_name": "a", "created_at": "1970-01-01T00:00:01.000Z"}]
    assert all(record["hash"] == turn_hash(record["turn"] or {}) for record in (user, agent))


def test_an_agent_that_was_cut_off_before_it_spoke_took_a_turn(builder: Builder) -> None:
    (record,) = finish(builder, "aborted", events=0)
    assert (record["status"], (record["turn"] or {})["messages"]) == ("interrupted", [])


def test_several_turns_of_one_run(builder: Builder) -> None:
    said(builder, "one")
    builder.end_turn("complete")
    said(builder, "two")
    records = finish(builder, "error", events=6)
    assert [record["turn_id"] for record in records] == [turn_id(THREAD, "r"), turn_id(THREAD, "r", "1")]
    assert [record["status"] for record in records] == ["complete", "interrupted"]
    assert ["agents" in record for record in records] == [False, True]


def test_facts_without_a_turn(builder: Builder) -> None:
    builder.facts_only = True
    builder.thread["title"] = "About \ud800"
    builder.links.append({"thread_id": THREAD, "relation": "spawned"})
    builder.context.external_id = "chat-1"
    builder.context.tenant = "t"
    builder.context.parent_run_id = "p"
    builder.last_at = 7000
    (record,) = finish(builder, "complete", events=1)
    assert (record["turn"], record["hash"], record["at"]) == (None, None, 7000)
    assert record["thread"]["external_id"] == "chat-1"
    assert (record["links"], record["tenant"], record["parent"]) == (builder.links, "t", {"run_id": "p"})
    assert "agents" not in record
    assert turn_record.decode(turn_record.encode(record))["thread"]["title"]


def test_the_start_is_the_runs_own_word(builder: Builder) -> None:
    builder.context.started_at = "1970-01-01T00:00:00.500Z"
    builder.user_turn([])
    said(builder, "x")
    user, agent = finish(builder, "complete", events=1)
    assert (user["turn"] or {})["submitted_at"] == (agent["turn"] or {})["started_at"] == "1970-01-01T00:00:00.500Z"


@pytest.mark.parametrize("odd", ["\ud800 half", 2**70, {"\udfff": [2**64]}, 1e300, "\0"])
def test_what_no_reader_could_take_is_mended(builder: Builder, odd: Any) -> None:
    builder.system("data-app-x", odd)
    (record,) = finish(builder, "complete", events=1)
    read = turn_record.decode(turn_record.encode(record))
    assert read["hash"] == record["hash"] == turn_hash(read["turn"] or {})
    turn_record.encode(read).decode()


def test_native_turns_keep_their_own_fields(builder: Builder) -> None:
    builder.facts_only = True
    builder.native.append({"turn_type": "agent", "completion_status": "interrupted", "interruption": None, "x": 1})
    (record,) = finish(builder, "complete", events=1)
    assert (record["status"], (record["turn"] or {})["x"]) == ("interrupted", 1)
    assert len(record["hash"] or "") == 64
