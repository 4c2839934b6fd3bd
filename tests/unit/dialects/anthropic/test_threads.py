"""Threads that Anthropic's server keeps, as anthropic 2.14 asks in them: runs of several calls."""

from typing import Any

import pytest

from pipeline.turns.path_rules import PathRule, parse
from pipeline.turns.redaction import Redaction
from pipeline.worker.assemble.redaction_rules import rules_of
from tests.unit.dialects.anthropic.test_events import CALL, RESULT, block, request, run, said, start, status, stop, text
from topics.json_text import Fields

GONE: Fields = {"type": "not_found_error", "message": "gone", "details": {"error_code": "thread_not_found"}}
LOST: Fields = {"type": "turnmill.error", "status": 404, "body": {"type": "error", "error": GONE}}


def user(words: str) -> Fields:
    return {"role": "user", "content": words}


def model(words: str) -> Fields:
    return {"role": "assistant", "content": [{"type": "text", "text": words}]}


def create(*messages: Fields) -> Fields:
    asked = request(*messages)
    asked["request"] |= {"tools": [{"name": "f"}], "thread": {"type": "create"}}
    return asked


def after(response: str, *messages: Fields) -> Fields:
    body = {"model": "m", "messages": list(messages)}
    thread = {"type": "continue", "previous_message_id": response}
    return {"type": "turnmill.request", "request": {**body, "thread": thread}}


def answer(name: str, words: str, reason: str = "end_turn") -> list[Fields]:
    return [start(id=name), *text(words), *stop(reason)]


def test_new_messages_alone_are_sent() -> None:
    first = [start(id="m1"), *block(0, CALL), *stop("tool_use")]
    results = {"role": "user", "content": [RESULT]}
    got = run(create(user("Weather?")), *first, after("m1", results), *answer("m2", "Sunny."), end="complete")
    assert said(got) == [[{}], ["72F"], ["Sunny."]]
    assert got.parts("request")[0]["tool_name"] == "f"
    assert (status(got), got.refused) == ("complete", [])


def test_the_same_words_are_said_each_time() -> None:
    again = user("Another one")
    got = run(
        create(again), *answer("m1", "One."), after("m1", again), *answer("m2", "Two."), after("m2", again),
        *answer("m3", "Three."), end="complete",
    )  # fmt: skip
    assert [turn["parts"][0]["content"] for turn in got.user_turns] == ["Another one"]
    assert said(got) == [["One."], ["Another one"], ["Two."], ["Another one"], ["Three."]]


def test_a_request_in_a_thread_of_another_run() -> None:
    """Capture has a run for each call: what the request leaves out is beside it."""
    kept = {"system": "be brief", "tools": [{"name": "f"}], "calls": {"a": "f"}}
    asked = {**after("m1", {"role": "user", "content": [RESULT]}), "kept": kept}
    got = run(asked, *answer("m2", "Sunny."), end="complete")
    assert got.parts("request")[0]["tool_name"] == "f"
    assert got.records[-1]["lineage"]["follows"] == "m1"


@pytest.mark.parametrize("kept", [None, 1, {"calls": 1}, {"calls": {"a": None}}, {"system": {}}])
def test_what_is_beside_a_request_may_be_anything(kept: Any) -> None:
    asked = {**after("m1", {"role": "user", "content": [RESULT]}), "kept": kept}
    assert run(asked, *answer("m2", "Sunny."), end="complete").refused == []


def test_a_thread_that_the_server_lost() -> None:
    history = [user("One"), model("First."), user("Two")]
    got = run(
        create(user("One")), *answer("m1", "First."), after("m1", user("Two")), LOST, create(*history),
        *answer("m2", "Second."), end="complete",
    )  # fmt: skip
    assert said(got) == [["First."], ["Two"], ["Second."]]
    assert status(got) == "complete"


@pytest.mark.parametrize("then", ["Two", "Better"])
def test_a_refused_exchange_is_taken_back(then: str) -> None:
    history = [user("One"), model("First."), user(then)]
    got = run(
        create(user("One")), *answer("m1", "First."), after("m1", user("Two")), *answer("m2", "No.", "refusal"),
        create(*history), *answer("m3", "Second."), end="complete",
    )  # fmt: skip
    assert said(got)[:3] == [["First."], [then], ["Second."]]
    turn = got.agent_turns[0]
    kept = [(each["message_type"], each["parts"][0]["content"]) for each in turn["meta:retracted"]["messages"]]
    assert kept == [("request", "Two"), ("response", "No.")]
    assert all({"timestamp", "agent_id"} <= each.keys() for each in turn["meta:retracted"]["messages"])
    assert turn["messages"][-1]["meta:purpose"] == "refused", "its tokens were spent"
    assert turn["total_usage"]["output_tokens"] == 27
    assert [part["content"] for message in got.export("pydantic-ai") for part in message["parts"]] == [
        *("One", "First.", then, "Second.")
    ]


def test_a_refused_first_exchange_is_taken_back() -> None:
    got = run(
        create(user("One")), *answer("m1", "No.", "refusal"), create(user("Two")), *answer("m2", "Yes."), end="complete"
    )
    assert [turn["parts"][0]["content"] for turn in got.user_turns] == ["Two"]
    assert said(got)[:1] == [["Yes."]]


def test_a_refused_exchange_that_the_history_has_stays() -> None:
    history = [user("One"), model("No."), user("Two")]
    got = run(
        create(user("One")), *answer("m1", "No.", "refusal"), request(*history), *answer("m2", "Yes."), end="complete"
    )
    assert said(got) == [["No."], ["Two"], ["Yes."]]
    assert "meta:retracted" not in got.agent_turns[0]


def test_what_was_taken_back_is_redacted() -> None:
    """Rules on places name it as they name the messages of the turn."""
    refused = [create(user("Mail ann@example.org")), *answer("m1", "Not ann@example.org.", "refusal")]
    got = run(*refused, create(user("Hi")), *answer("m2", "Hi."), end="complete")
    text, place = Redaction(rules_of("email")), PathRule("text", parse("$.messages[*].parts[*].content"), "[text]")
    for redaction, left in ((text, "Not [email]."), (Redaction([place]), "[text]")):
        (response,) = redaction.turn(got.agent_turns[0])["meta:retracted"]["messages"]
        assert response["parts"][0]["content"] == left
