"""Sessions of opencode: messages and their parts become runs, in the AI SDK's events."""

from typing import Any

from pipeline.dialects.transcript import Homes
from pipeline.dialects.vercel_ai.opencode import Conversations
from tests.support.read_sessions import Read, opencodes_lines, read
from tests.support.sessions import PIXEL, Opencode

PICTURE = {"type": "file", "mime": "image/png", "filename": "p.png", "url": f"data:image/png;base64,{PIXEL}"}
BUSY = {"type": "retry", "attempt": 1, "error": {"name": "APIError"}}


def of(*sessions: Opencode) -> Read:
    return read([(Conversations("opencode.db", Homes()), opencodes_lines(*sessions))])


def parts(turn: dict[str, Any]) -> list[tuple[str, Any]]:
    found = [part for message in turn["messages"] for part in message.get("parts", ())]
    return [(part["part_kind"], part.get("content", part.get("args"))) for part in found]


def test_a_turn_with_all_that_it_may_hold() -> None:
    opencode = Opencode("one")
    read_for_it = {"type": "text", "text": "Called the Read tool", "synthetic": True}
    opencode.ask(read_for_it, PICTURE, "What is here?", {"type": "agent", "name": "general"})
    thought = {"type": "reasoning", "text": "Two places", "time": {"start": 1, "end": 2}, "metadata": {"x": {"y": 1}}}
    call, failed = opencode.call("c1", attachments=[PICTURE]), opencode.call("c2", "error")
    opencode.answer(thought, "I look.", call, failed, BUSY, finish="tool-calls")
    opencode.answer("A file.", {"type": "patch", "hash": "abc", "files": []})
    found = of(opencode)
    assert not found.refused
    (thread,) = found.threads.values()
    assert (thread["title"], thread["metadata"]["cwd"]) == ("A listing", "/home/ada/oven")
    assert thread["metadata"]["opencode_version"] == "1.18.33"
    user, agent = thread["turns"]
    picture, words = user["parts"][0]["content"]
    assert (picture["data"], words) == (PIXEL, "What is here?")
    assert agent["completion_status"] == "complete"
    shown = parts(agent)
    assert shown[4][1][0] == "a.txt"
    assert shown[4][1][1]["data"] == PIXEL
    assert [one for place, one in enumerate(shown) if place != 4] == [
        ("thinking", "Two places"),
        ("text", "I look."),
        ("tool-call", {"path": "."}),
        ("tool-call", {"path": "."}),
        ("tool-return", "no such file"),
        ("text", "A file."),
    ]
    counts = {"input_tokens": 200, "output_tokens": 40, "thinking_tokens": 10, "cache_read_tokens": 120}
    assert agent["total_usage"] == counts
    (system,) = [one for one in agent["messages"] if "event_type" in one]
    assert system["event_type"] == "data-app-opencode.retry"
    (run,) = found.runs
    assert (run["run"]["model_name"], run["run"]["provider_name"]) == ("gpt-5", "openai")
    assert (run["agent_id"], run["run"]["imported"]) == ("opencode", True)


def test_each_prompt_is_a_run_that_continues_the_one_before() -> None:
    opencode = Opencode("one")
    asked = []
    for number in range(3):
        asked.append(opencode.ask(f"{number}"))
        opencode.answer("Yes", finish="stop" if number else None)
    runs = of(opencode).runs
    assert [run["run_id"] for run in runs] == [one["id"] for one in asked]
    assert [run["run"].get("continues") for run in runs] == [None, asked[0]["id"], asked[1]["id"]]
    assert [run.get("end") for run in runs] == ["disconnected", "complete", None], "the first was killed"


def test_what_the_program_says_in_the_users_name_belongs_to_the_run() -> None:
    opencode = Opencode("one")
    opencode.ask("List")
    opencode.answer("a.txt")
    opencode.ask({"type": "compaction", "auto": True})
    opencode.answer("There is a.txt", summary=True)
    opencode.ask({"type": "text", "text": "Continue", "synthetic": True})
    opencode.answer("Done")
    found = of(opencode)
    (thread,) = found.threads.values()
    assert len(found.runs) == 1
    agent = thread["turns"][1]
    assert [one for _, one in parts(agent)] == ["a.txt", "There is a.txt", "Done"]
    assert [one["event_type"] for one in agent["messages"] if "event_type" in one] == ["data-app-opencode.compaction"]
    assert agent["completion_status"] == "complete"


def test_errors_and_aborts_interrupt_the_turn() -> None:
    opencode = Opencode("one")
    opencode.ask("List")
    opencode.answer("I lo", finish=None, error={"name": "MessageAbortedError", "data": {"message": "Aborted"}})
    opencode.ask({"type": "subtask", "prompt": "Again", "agent": "general", "description": ""})
    opencode.answer(finish=None, error={"name": "APIError", "data": {"message": "no such model"}})
    (thread,) = of(opencode).threads.values()
    turns = thread["turns"]
    assert [turn.get("completion_status") for turn in turns] == [None, "interrupted", None, "interrupted"]
    assert turns[2]["parts"][0]["content"] == "Again"
    assert "no such model" in str(turns[3])


def test_a_fork_is_a_branch_and_a_sub_agent_is_a_thread_of_its_own() -> None:
    opencode = Opencode("one")
    first = opencode.ask("List")
    opencode.answer("a.txt")
    opencode.ask("More")
    opencode.answer("b.txt")
    fork, child = Opencode("two"), Opencode("three", parent=opencode.session)
    fork.facts["title"] = "A listing (fork #1)"
    fork.ask("List")
    fork.answer("a.txt")
    other = fork.ask("Less")
    fork.answer("none")
    child.ask("List")
    child.answer("a.txt")
    found = of(opencode, fork, child)
    assert len(found.runs) == 4
    branch, spawned = found.runs[2:]
    assert (branch["run_id"], branch["run"]["continues"]) == (other["id"], first["id"])
    assert branch["thread_id"] == found.runs[0]["thread_id"]
    assert (spawned["agent_id"], spawned["run"]["parent_thread_id"]) == ("general", opencode.session)
    assert "title" not in branch["run"]["thread"]


def test_counts_of_earlier_versions_have_the_thoughts_in_the_output() -> None:
    opencode = Opencode("one")
    opencode.ask("List")
    opencode.answer("a.txt")
    step = opencode.rows[-1][1][-1]
    del step["tokens"]["total"]
    step["cost"] = 0
    usage = [event["data"] for event in of(opencode).runs[0]["events"] if event["type"] == "data-sys-usage"]
    assert usage == [{"input_tokens": 100, "output_tokens": 15, "thinking_tokens": 5, "cache_read_tokens": 60}]
