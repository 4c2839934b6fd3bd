import random
from typing import Any

import pytest

from pipeline.turns.thread_document import thread_document
from turnmill.identity import turn_id

THREAD = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"


def record(run: str, turn: dict[str, Any] | None, ordinal: int = 0, **fields: Any) -> dict[str, Any]:
    thread_id = fields.pop("thread_id", THREAD)
    return {
        "v": 1,
        "thread_id": thread_id,
        "run_id": run,
        "turn_id": turn_id(thread_id, run, str(ordinal or "")),
        "agent_id": "a1",
        "dialect": "vercel-ai",
        "revision": 0,
        "status": "complete",
        "hash": None,
        "events": 4,
        "turn": turn,
        "ordinal": ordinal,
        **fields,
    }


def at(second: int) -> str:
    return f"2026-01-20T10:00:{second:02d}.000Z"


def user(second: int, text: str = "hi") -> dict[str, Any]:
    return {"turn_type": "user", "submitted_at": at(second), "parts": [{"part_kind": "user-prompt", "content": text}]}


def agent(start: int, end: int, **fields: Any) -> dict[str, Any]:
    return {
        "turn_type": "agent",
        "agent_id": "a1",
        "started_at": at(start),
        "completed_at": at(end),
        "completion_status": "complete",
        "messages": [],
        **fields,
    }


def test_a_thread_has_its_turns_in_the_order_of_time_and_the_user_first() -> None:
    turns = [user(5), agent(5, 9), user(12), agent(13, 20)]
    document = thread_document(THREAD, [record(f"r{n}", turn) for n, turn in reversed(list(enumerate(turns)))])
    assert document["turns"] == turns
    assert (document["version"], document["thread_id"]) == ("0.0.4", THREAD)
    assert (document["created_at"], document["updated_at"]) == (at(5), at(20))
    assert "relationships" not in document
    assert "metadata" not in document


def test_turns_of_one_run_at_the_same_time_keep_their_order() -> None:
    turns = [agent(5, 5, note=n) for n in range(6)]
    records = [record("r", turn, ordinal=n) for n, turn in enumerate(turns)]
    random.Random(1).shuffle(records)
    assert thread_document(THREAD, records)["turns"] == turns


def test_complete_beats_interrupted_and_then_the_newer_revision_wins() -> None:
    cut = agent(1, 2, completion_status="interrupted", note="cut")
    records = [
        record("r", agent(1, 4, note="old"), revision=1),
        record("r", agent(1, 4, note="new"), revision=2),
        record("r", cut, revision=9, status="interrupted"),
    ]
    for order in (records, records[::-1]):
        assert [turn["note"] for turn in thread_document(THREAD, order)["turns"]] == ["new"]
    assert thread_document(THREAD, records[2:])["turns"] == [cut]


def test_an_interrupted_turn_counts_until_its_interruption() -> None:
    turn = agent(1, 2, completion_status="interrupted", interruption={"reason": "timeout", "interrupted_at": at(30)})
    del turn["completed_at"]
    assert thread_document(THREAD, [record("r", turn)])["updated_at"] == at(30)


def test_the_newest_configuration_of_an_agent_wins_and_its_first_time_stays() -> None:
    old = {"agent_id": "a1", "agent_name": "Ann", "model_name": "m1", "created_at": at(1)}
    new = {"agent_id": "a1", "agent_name": "Anna", "created_at": at(8)}
    records = [record("r2", agent(8, 9), agents=[new]), record("r1", agent(1, 2), agents=[old])]
    assert thread_document(THREAD, records)["agents"] == {
        "a1": {"agent_id": "a1", "agent_name": "Anna", "model_name": "m1", "created_at": at(1)}
    }


def test_every_agent_of_a_turn_is_in_the_registry() -> None:
    turn = agent(3, 4, messages=[{"message_type": "response", "agent_id": "helper", "timestamp": at(3), "parts": []}])
    agents = thread_document(THREAD, [record("r", turn)])["agents"]
    assert agents == {name: {"agent_id": name, "agent_name": name, "created_at": at(3)} for name in ("a1", "helper")}


def test_facts_of_the_thread_are_merged_and_the_newest_word_wins() -> None:
    records = [
        record("r1", agent(1, 2), thread={"title": "first", "metadata": {"a": 1, "b": 1}, "external_id": "chat-7"}),
        record("facts", None, at=1768903205000, thread={"title": "second", "metadata": {"b": 2}, "app:pin": True}),
        record("r3", agent(9, 10), thread={"ended_at": at(10), "turns": "not mine to say"}),
    ]
    document = thread_document(THREAD, records[::-1])
    assert document["title"] == "second"
    assert document["app:pin"] is True
    assert document["metadata"] == {"a": 1, "b": 2, "meta:external_id": "chat-7", "meta:ended_at": at(10)}
    assert len(document["turns"]) == 2


def test_a_thread_of_facts_only_has_the_times_of_its_facts() -> None:
    config = {"agent_id": "a1", "agent_name": "Ann", "created_at": at(7)}
    document = thread_document(THREAD, [record("r", None, agents=[config], agent_id="a1")])
    assert (document["created_at"], document["updated_at"], document["turns"]) == (at(7), at(7), [])
    assert document["agents"] == {"a1": config}


def test_links_are_those_that_start_here_each_once() -> None:
    spawned = {"thread_id": OTHER, "relation": "spawned_from"}
    merged = {"thread_id": OTHER, "relation": "merged_from", "metadata": {"n": 1}}
    records = [
        record("r1", agent(1, 2), links=[spawned, {"from": OTHER, "thread_id": THREAD, "relation": "spawned_from"}]),
        record("r2", agent(3, 4), links=[{"from": THREAD, **spawned}, merged]),
    ]
    assert thread_document(THREAD, records)["relationships"] == {"links": [spawned, merged]}


def test_another_threads_record_gives_only_its_link() -> None:
    parents = record(
        "r1",
        agent(1, 2),
        thread_id=OTHER,
        thread={"title": "the parent's"},
        links=[{"from": THREAD, "thread_id": OTHER, "relation": "spawned_from"}],
    )
    document = thread_document(THREAD, [parents, record("r2", user(5))])
    assert document["turns"] == [user(5)]
    assert "title" not in document
    assert document["relationships"] == {"links": [{"thread_id": OTHER, "relation": "spawned_from"}]}


@pytest.mark.parametrize("stamp", [None, "", "yesterday", 12, "2026-01-20T10:00:09+02:00"])
def test_any_time_of_a_native_turn_is_taken(stamp: object) -> None:
    native = {"turn_type": "user", "submitted_at": stamp, "parts": []}
    assert thread_document(THREAD, [record("r", native)])["turns"] == [native]
