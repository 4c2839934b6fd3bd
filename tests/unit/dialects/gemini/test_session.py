"""Sessions of Gemini CLI: lines become runs, each with the calls of the Gemini API that it made."""

from typing import Any

from pipeline.dialects import FORMATS
from pipeline.dialects.gemini.session import Chat
from pipeline.dialects.transcript import Homes
from tests.support.read_sessions import Read, read
from tests.support.sessions import PIXEL, Gemini


def of(*sessions: Gemini, parent: str | None = None) -> Read:
    homes = Homes()
    return read([(Chat(str(n), "name", homes, parent), one.lines) for n, one in enumerate(sessions)])


def parts(turn: dict[str, Any]) -> list[tuple[str, Any]]:
    found = [part for message in turn["messages"] for part in message.get("parts", ())]
    return [(part["part_kind"], part.get("content", part.get("args"))) for part in found]


def test_a_turn_with_all_that_it_may_hold() -> None:
    gemini = Gemini("one", directories=["/home/ada/oven"], summary="A listing")
    gemini.ask("What is here?", {"inlineData": {"mimeType": "image/png", "data": PIXEL}})
    gemini.say("I look.", "Looking")
    gemini.call("c1")
    gemini.add("info", "A tool was slow")
    gemini.say("A file.")
    gemini.ask("Thanks")
    found = of(gemini)
    assert not found.refused
    (thread,) = found.threads.values()
    assert (thread["thread_id"], thread["title"]) == (gemini.session, "A listing")
    assert thread["metadata"] == {"cwd": "/home/ada/oven"}
    user, agent, *_ = thread["turns"]
    assert user["parts"][0]["content"][0] == "What is here?"
    assert user["parts"][0]["content"][1]["data"] == PIXEL
    assert agent["completion_status"] == "complete"
    assert parts(agent) == [
        ("thinking", "**Looking**\nLooking it is"),
        ("text", "I look."),
        ("tool-call", {"path": "."}),
        ("tool-return", {"output": "a.txt"}),
        ("text", "A file."),
    ]
    assert agent["total_usage"]["total_tokens"] == 250
    assert agent["total_usage"]["cache_read_tokens"] == 120
    assert {one["model_name"] for one in agent["messages"] if one["message_type"] == "response"} == {"gemini-3-pro"}
    assert [one["event_type"] for one in agent["messages"] if "event_type" in one] == ["data-app-gemini-cli.info"]
    assert FORMATS["gemini"].write is not None


def test_each_prompt_is_a_run_that_continues_the_one_before() -> None:
    gemini = Gemini("one")
    asked = [gemini.ask("One")]
    gemini.say("1")
    asked.append(gemini.ask("Two"))
    gemini.say("2")
    gemini.lines.append({"$rewindTo": asked[1]["id"]})
    asked.append(gemini.ask("Three"))
    gemini.say("3")
    gemini.lines.append({"$rewindTo": "of another file"})
    asked.append(gemini.ask("Four"))
    runs = of(gemini).runs
    assert [run["run_id"] for run in runs] == [one["id"] for one in asked]
    first = asked[0]["id"]
    assert [run["run"].get("continues") for run in runs] == [None, first, first, None]
    assert [run.get("end") for run in runs] == ["complete"] * 3 + [None]


def test_however_often_a_message_was_written_its_events_are_the_same() -> None:
    whole, growing = Gemini("one"), Gemini("one")
    for one in (whole, growing):
        one.ask("List")
        one.say("I look.", "Looking", "Again")
        one.call("c1")
    last = whole.lines[-3]
    seen = {**last, "tokens": None, "toolCalls": None}  # type: ignore[dict-item]
    growing.lines[-5:] = [{**seen, "thoughts": seen["thoughts"][:1], "content": ""}, seen, growing.lines[-5], last]
    growing.lines += whole.lines[-2:]
    assert of(growing).runs[0]["events"] == of(whole).runs[0]["events"]


def test_a_result_that_is_a_text_and_one_that_never_came() -> None:
    gemini = Gemini("one")
    gemini.ask("List")
    gemini.say("")
    call = {"id": "c1", "name": "list", "args": {}, "status": "success", "result": "a text"}
    gemini.lines.append({**gemini.newest, "toolCalls": [call, {**call, "id": "c2", "result": None}]})
    gemini.say("Done")
    (thread,) = of(gemini).threads.values()
    agent = thread["turns"][1]
    assert [kind for kind, _ in parts(agent)] == ["tool-call", "tool-call", "tool-return", "text"]


def test_a_copy_in_another_file_adds_nothing_and_a_sub_agent_is_a_thread_of_its_own() -> None:
    gemini, copy, child = Gemini("one"), Gemini("one"), Gemini("two", kind="subagent")
    for one in (gemini, copy, child):
        one.ask("List")
        one.say("a")
    assert len(of(gemini, copy).runs) == 1
    (run,) = of(child, parent=gemini.session).runs
    assert (run["agent_id"], run["run"]["parent_thread_id"]) == ("agent", gemini.session)
