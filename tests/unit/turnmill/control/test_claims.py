"""The first answer to a question counts, and stays until a run has it; a run's inbox takes each command once."""

import asyncio
import json
from dataclasses import replace
from typing import Any

from pipeline.policies.pools import CLAIMS
from turnmill.control.claims import Claims, answer_id, open_answers
from turnmill.control.record import ANSWER, NOW, STEER, Command, command_of
from turnmill.control.steering import MAX_WAITING, NO_STEERING, TOO_MANY, Inbox
from turnmill.wire.envelope import encode

THREAD = "8e06a734-32f3-584c-a380-4e57c9b39f3f"
LATER = 2_000_000_000_000


def answering(name: str, question: str = "q", tenant: str | None = None, **more: Any) -> Command:
    payload = {"answer_id": question, "value": name, "asked": {"id": "c1"}, "dialect": "vercel-ai"}
    return Command(name, THREAD, "r", tenant, ANSWER, NOW, f"by {name}", 1, LATER, encode(payload | more))


def state(of: str, name: str) -> dict[str, Any]:
    return {"kind": "state", "thread_id": THREAD, "payload": {"command_id": of, "state": name}}


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


def test_no_first_answer_is_forgotten_before_it_expires() -> None:
    claims = Claims(replace(CLAIMS, size=6_800))
    winners = [claims.take(answering(str(number), str(number)), 1) for number in range(20)]
    assert len([winner for winner in winners if winner]) == 9
    assert [winner and winner.id for winner in winners[:9]] == [str(number) for number in range(9)]
    later = claims.take(answering("later", "0"), 1)
    assert later is not None
    assert later.id == "0", "the first still counts"
    after = claims.take(answering("after", "0"), LATER)
    assert after is not None
    assert after.id == "after", "what has expired makes room"


def test_a_tenant_that_answers_much_leaves_room_for_others() -> None:
    claims = Claims(replace(CLAIMS, size=400_000))
    for number in range(2_000):
        command = answering(str(number), str(number), tenant="evil")
        if claims.has_room(command):
            claims.take(command, 1)
    assert not claims.has_room(answering("more", "more", tenant="evil"))
    assert claims.has_room(answering("a", tenant="acme"))


def test_an_answer_takes_no_more_memory_than_its_bytes() -> None:
    value: Any = json.loads("[" * 20 + "]" * 20)
    command = answering("a", value=[value] * 1_000)
    assert command.size < 60_000
    assert command.payload["value"] == [value] * 1_000


def test_ids_are_of_the_run_and_the_question() -> None:
    assert len({answer_id(run, own) for run in ("r1", "r2") for own in ("a", "b")}) == 4


def test_an_answer_survives_its_record() -> None:
    command = answering("a")
    assert command_of(command.record) == command


def steering(name: str) -> Command:
    return Command(name, THREAD, "r", None, STEER, NOW, "ann", 1, LATER, encode({"text": name}))


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
