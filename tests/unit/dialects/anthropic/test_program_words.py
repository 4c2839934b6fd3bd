"""What Claude Code 2.1.332 writes in the user's name into its requests: nobody's words."""

from typing import Any

import pytest

from tests.unit.dialects.anthropic.test_events import request, run, said, start, status, stop, text
from topics.json_text import Fields

REMINDER = "<system-reminder>\nToday's date is 2026-11-28.\n</system-reminder>"
SUGGEST = "[SUGGESTION MODE: Suggest what the user might naturally type next into Claude Code.]"
COMPACT = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."
TITLE = "<session>\nWeather?\n</session>\n\nWrite the title in the language the user wrote in."
SUMMARY = "This session is being continued from a previous conversation that ran out of context."


def block(words: str) -> Fields:
    return {"type": "text", "text": words}


def user(*words: str) -> Fields:
    return {"role": "user", "content": [block(each) for each in words]}


def model(words: str) -> Fields:
    return {"role": "assistant", "content": [block(words)]}


def answer(name: str, words: str) -> list[Fields]:
    return [start(id=name), *text(words), *stop()]


def test_the_prompt_is_what_the_user_has_said() -> None:
    got = run(request(user(REMINDER, "Weather?")), *answer("m1", "Sunny."), end="complete")
    (turn,) = got.user_turns
    assert turn["parts"] == [{"part_kind": "user-prompt", "content": "Weather?"}]
    (note,) = got.messages("system")
    assert (note["event_type"], note["event_data"]) == ("data-app-note", {"content": REMINDER})
    plain = run(request(user("Weather?")), *answer("m1", "Sunny."), end="complete")
    for key in ("words", "earlier"):
        assert got.records[0]["lineage"].get(key) == plain.records[0]["lineage"].get(key)


@pytest.mark.parametrize(("words", "purpose"), [(SUGGEST, "suggestion"), (COMPACT, "compaction")])
def test_a_call_of_the_programs_own_is_beside_the_answer(words: str, purpose: str) -> None:
    first = user("Weather?")
    asked = {"role": "user", "content": words}
    events = [request(first), *answer("m1", "Sunny."), request(first, model("Sunny."), asked), *answer("m2", "thanks")]
    more = [request(first, model("Sunny."), user("Thanks")), *answer("m3", "Welcome.")]
    got = run(*events, *more, end="complete")
    assert said(got)[:3] == [["Sunny."], ["Thanks"], ["Welcome."]]
    aside = got.messages("response")[-1]
    assert (aside["meta:purpose"], aside["parts"], aside["meta:output"]) == (
        *(purpose, []),
        [{"part_kind": "text", "content": "thanks"}],
    )
    assert got.agent_turns[0]["total_usage"]["output_tokens"] == 27
    assert (status(got), got.refused) == ("complete", [])


def test_a_run_of_such_a_call_alone() -> None:
    got = run(request(user("Weather?"), model("Sunny."), user(SUGGEST)), *answer("m2", "thanks"), end="complete")
    assert got.user_turns == []
    assert [message["meta:purpose"] for message in got.messages("response")] == ["suggestion"]
    assert (status(got), got.records[-1]["lineage"], got.export("anthropic")) == ("complete", {"beside": True}, [])


def test_a_title_is_asked_for_before_the_conversation() -> None:
    """As Claude Code 2.1.197 does, with the session's id: the conversation is named by what its user says."""
    got = run(request(user(TITLE)), *answer("m1", '{"title": "Weather"}'), end="complete")
    assert got.user_turns == []
    assert [message["meta:purpose"] for message in got.messages("response")] == ["title"]
    assert (status(got), got.records[-1]["lineage"]) == ("complete", {"beside": True})


def test_a_compacted_history_repeats_nothing() -> None:
    commands = "<command-name>/compact</command-name>", "<local-command-stdout>Compacted</local-command-stdout>"
    history = [user(SUMMARY), model("Sunny."), user(REMINDER, *commands, "What else?")]
    got = run(request(user("Weather?")), *answer("m1", "Sunny."), request(*history), *answer("m2", "Rain."))
    assert said(got) == [["Sunny."], ["What else?"], ["Rain."]]


@pytest.mark.parametrize("words", ["<system-reminder> is a tag", "<session>\n", "Do you know [SUGGESTION MODE: …?", ""])
def test_what_the_user_writes_about_it_is_theirs(words: str) -> None:
    got = run(request({"role": "user", "content": f"{words}Weather?"}), *answer("m1", "Sunny."), end="complete")
    assert got.user_turns[0]["parts"][0]["content"] == f"{words}Weather?"


@pytest.mark.parametrize("messages", [[], [1], [{"role": "user"}], [{"role": "user", "content": [{"type": "text"}]}]])
def test_messages_may_be_any_json(messages: list[Any]) -> None:
    assert run(request(*messages), *answer("m1", "Sunny."), end="complete").refused == []
