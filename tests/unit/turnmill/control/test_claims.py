"""The first answer to a question counts, and stays until a run has it; a run's inbox takes each command once."""

from __future__ import annotations

import asyncio
from typing import Any

from turnmill.control.claims import Claims, answer_id, open_answers
from turnmill.control.record import ANSWER, NOW, STEER, Command, command_of
from turnmill.control.steering import MAX_WAITING, NO_STEERING, TOO_MANY, Inbox

THREAD = "8e06a734-32f3-584c-a380-4e57c9b39f3f"
LATER = 2_000_000_000_000


def answering(name: str, question: str = "q", tenant: str | None = None, **more: Any) -> Command:
    payload = {"answer_id": question, "value": name, "asked": {"id": "c1"}, "dialect": "vercel-ai"}
    return Command(name, THREAD, "r", tenant, ANSWER, NOW, f"by {name}", 1, LATER, payload | more)


def state(of: str, name: str) -> dict[str, Any]:
    return {"kind": "state", "payload": {"command_id": of, "state": name}}


def found(*records: dict[str, Any], tenant: str | None = None) -> list[str]:
    return [one.command_id for one in open_answers(records, tenant, THREAD, 2)]


def test_the_first_counts_for_each_question_and_tenant() -> None:
    records = [
        answering("a").record,
        answering("b").record,
        answering("c", "q2").record,
        answering("d", tenant="acme").record,
    ]
    assert found(*records) == ["a", "c"]
    assert found(*records, tenant="acme") == ["d"]
    assert found(*records, *records) == ["a", "c"], "the same again"


def test_it_stays_until_a_run_has_it() -> None:
    records = [answering("a").record, state("a", "unanswered")]
    assert found(*records) == ["a"]
    assert found(*records, state("a", "acknowledged")) == []
    assert found(*records, state("a", "acknowledged"), answering("b").record) == [], "the question is answered"


def test_a_winner_that_is_forgotten_makes_room() -> None:
    claims = Claims(2)
    for name in "abc":
        assert claims.take(answering(name, name)).id == name
    assert [one.id for one in claims.open(None, THREAD, 2)] == ["b", "c"]
    assert claims.open(None, THREAD, LATER) == [], "it has expired"


def test_ids_are_of_the_run_and_the_question() -> None:
    assert len({answer_id(run, own) for run in ("r1", "r2") for own in ("a", "b")}) == 4


def test_an_answer_survives_its_record() -> None:
    command = answering("a")
    assert command_of(command.record) == command


def steering(name: str) -> Command:
    return Command(name, THREAD, "r", None, STEER, NOW, "ann", 1, LATER, {"text": name})


def test_messages_are_taken_up_once() -> None:
    inbox = Inbox(takes_messages=True)
    assert [inbox.put(steering(name)) for name in ("a", "b", "a")] == [None] * 3
    assert [one.id for one in inbox.messages()] == ["a", "b"]
    assert inbox.put(steering("a")) is None
    assert inbox.messages() == []
    assert [inbox.put(steering(str(n))) for n in range(MAX_WAITING + 1)] == [None] * MAX_WAITING + [TOO_MANY]


def test_a_program_that_takes_none_says_so_once() -> None:
    inbox = Inbox(takes_messages=False)
    assert [inbox.put(steering("a")), inbox.put(steering("a"))] == [NO_STEERING, None]


async def test_a_question_waits_for_its_first_answer() -> None:
    inbox = Inbox(takes_messages=False)
    waiting = asyncio.create_task(inbox.answer("r", "c1"))
    await asyncio.sleep(0)
    inbox.put(answering("x", "another"))
    for name in ("a", "b"):
        inbox.put(answering(name, answer_id("r", "c1")))
    assert (await waiting).id == (await inbox.answer("r", "c1")).id == "a"
