"""Transcripts of Claude Code: a tree of lines becomes runs, each with the events that its lines are."""

import pytest

from pipeline.dialects.claude_code.transcript import Session
from pipeline.dialects.transcript import Homes
from tests.support.read_sessions import Read, read
from tests.support.session_forks import forked_claude
from tests.support.sessions import PIXEL, Claude, named


def of(*sessions: Claude, homes: Homes | None = None) -> Read:
    homes = homes or Homes()
    return read([(Session(one.file, one.session, homes), one.lines) for one in sessions])


def test_a_turn_with_all_that_it_may_hold() -> None:
    claude = Claude("one")
    claude.lines.append({"type": "file-history-snapshot", "messageId": "m", "snapshot": {"a": 1}})
    claude.lines.append({"type": "of-the-start", "value": 6})
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    claude.ask([{"type": "text", "text": "What is this?"}, picture])
    thought = {"type": "thinking", "thinking": "A pixel", "signature": "s"}
    claude.say(thought, "Let me look.", {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}, stop="tool_use")
    claude.result("t1", [picture])
    claude.say("A pixel.")
    claude.add("system", subtype="turn_duration", durationMs=5)
    claude.lines.append({"type": "ai-title", "aiTitle": "A pixel", "sessionId": claude.session})
    claude.lines.append({"type": "brand-new", "value": 7, "sessionId": claude.session})
    found = of(claude)
    assert not found.refused
    (thread,) = found.threads.values()
    assert thread["thread_id"] == claude.session
    assert thread["title"] == "A pixel"
    assert thread["metadata"] == {"cwd": "/home/ada/oven", "git_branch": "main", "claude_code_version": "2.1.0"}
    user, agent = thread["turns"]
    assert [part["part_kind"] for part in user["parts"]] == ["user-prompt", "file"]
    assert user["parts"][1]["content"]["data"] == PIXEL
    assert agent["completion_status"] == "complete"
    first, result, second = [m for m in agent["messages"] if m["message_type"] != "system"]
    assert [part["part_kind"] for part in first["parts"]] == ["thinking", "text", "tool-call"]
    assert result["parts"][0]["content"] == [picture]
    assert second["parts"][0]["content"] == "A pixel."
    assert first["usage"] == {"input_tokens": 103, "cache_read_tokens": 100, "output_tokens": 20}, (
        "of three lines, once"
    )
    assert agent["total_usage"]["output_tokens"] == 40
    kinds = [m["event_type"] for m in agent["messages"] if m["message_type"] == "system"]
    assert kinds == ["data-app-of-the-start", "custom:claude-code.turn_duration", "data-app-brand-new"]
    assert user["submitted_at"] == "2026-01-20T10:00:01.000Z"


def test_an_edit_is_a_branch_and_parallel_results_are_none() -> None:
    claude = Claude("one")
    claude.ask("Heat the oven")
    claude.call("t1", stop=None)
    calling = claude.call("t2")
    claude.result("t1")
    claude.result("t2", parentUuid=calling["uuid"])
    end = claude.say("It is hot.")
    claude.ask("Bake bread")
    claude.say("Baked.")
    claude.last = end["uuid"]
    claude.ask("Bake cake")
    claude.say("Baked, too.")
    claude.last = None
    claude.ask("Heat the stove")
    claude.say("Hot.")
    runs = of(claude).runs
    assert [run["said"] for run in runs] == ["Heat the oven", "Bake bread", "Bake cake", "Heat the stove"]
    first, bread, cake, stove = runs
    assert bread["run"]["continues"] == cake["run"]["continues"] == first["run_id"]
    assert stove["run"]["replaces"] == first["run_id"]
    assert "continues" not in first["run"]
    turns = of(claude).threads[claude.session]["turns"]
    versions = {turn["meta:run_id"]: turn["meta:branch"]["version"]["number"] for turn in turns}
    assert versions == {run["run_id"]: number for run, number in zip(runs, (1, 1, 2, 2), strict=True)}


def test_words_that_come_while_the_model_waits_for_results_belong_to_its_run() -> None:
    claude = Claude("one")
    claude.ask("Heat the oven")
    claude.call("t1")
    claude.result("t1")
    claude.ask("to 200 degrees")
    claude.say("It is at 200.")
    (run,) = of(claude).runs
    assert len(run["events"]) == 5


def test_what_the_program_says_in_the_users_name_begins_no_run() -> None:
    claude = Claude("one")
    claude.ask("Heat the oven")
    claude.call("t1")
    claude.ask("[Request interrupted by user for tool use]")
    claude.ask("Caveat: the messages below are of local commands", isMeta=True)
    claude.ask("<command-name>/compact</command-name>")
    claude.add("system", subtype="compact_boundary", parentUuid=None, compactMetadata={"trigger": "manual"})
    claude.ask("This session goes on from…", isCompactSummary=True)
    claude.ask("<local-command-stdout>Compacted</local-command-stdout>")
    claude.ask("Go on")
    claude.say("Yes.")
    found = of(claude)
    assert [run["said"] for run in found.runs] == ["Heat the oven", "<command-name>/compact</command-name>", "Go on"]
    first, go, last = found.threads[claude.session]["turns"][1:]
    assert first["interruption"]["reason"] == "user_cancelled"
    assert first["meta:partial"]["messages"], "the call that nobody answered"
    assert (go["turn_type"], last["completion_status"]) == ("user", "complete")
    assert found.runs[2]["run"]["continues"] == found.runs[1]["run_id"], "the run of the summary"


def test_older_versions_do_not_say_why_a_response_stopped() -> None:
    claude = Claude("one")
    claude.ask("Hello")
    claude.say("Hi.", stop=None)
    claude.ask("Heat the oven")
    claude.call("t1", stop=None)
    turns = [turn for turn in of(claude).threads[claude.session]["turns"] if turn["turn_type"] == "agent"]
    assert [turn["completion_status"] for turn in turns] == ["complete", "interrupted"]
    assert turns[0]["total_usage"]["output_tokens"] == 20


def test_an_error_of_the_api() -> None:
    claude = Claude("one")
    claude.ask("Hello")
    error = {"id": "m", "model": "<synthetic>", "role": "assistant", "content": [{"type": "text", "text": "API Error"}]}
    claude.add("assistant", message=error, isApiErrorMessage=True, error="rate_limit")
    (turn,) = [turn for turn in of(claude).threads[claude.session]["turns"] if turn["turn_type"] == "agent"]
    assert turn["interruption"] == turn["interruption"] | {"reason": "error", "detail": "API Error"}


@pytest.mark.parametrize("apart", [False, True])
def test_a_sub_agent_is_a_thread(apart: bool) -> None:  # noqa: FBT001
    claude = Claude("one")
    claude.ask("Find the oven")
    claude.call("t1", "Task", subagent_type="finder", prompt="Where is it?")
    child = claude.agent("a1")
    if not apart:
        del child.fields["agentId"]
    child.ask("Where is it?")
    child.call("c1")
    child.result("c1")
    child.say("In the kitchen.")
    homes = Homes()
    if apart:
        files = [(Session("agent", claude.session, homes, "a1", "finder"), child.lines)]
    else:
        claude.lines += child.lines
        files = []
    claude.result("t1", "In the kitchen.")
    claude.say("It is in the kitchen.")
    found = read([(Session(claude.file, claude.session, homes), claude.lines), *files])
    assert not found.refused
    parent, other = found.threads.values()
    assert parent["thread_id"] == claude.session
    assert [link["relation"] for link in other["relationships"]["links"]] == ["spawned_from"]
    assert other["relationships"]["links"][0]["thread_id"] == claude.session
    assert [turn["turn_type"] for turn in other["turns"]] == ["user", "agent"]
    assert other["turns"][1]["completion_status"] == "complete"
    assert found.runs[1]["agent_id"] == ("finder" if apart else "agent")


@pytest.mark.parametrize("alone", [False, True])
def test_a_fork_is_a_branch_of_its_origin_and_counts_no_token_twice(alone: bool) -> None:  # noqa: FBT001
    claude = Claude("one")
    claude.ask("Heat the oven")
    claude.say("It is hot.")
    claude.ask("Bake bread")
    claude.say("Baked.")
    fork = forked_claude(claude, None, "two")
    fork.lines.append({"type": "custom-title", "customTitle": "Cake", "sessionId": fork.session})
    fork.ask("And cake")
    fork.say("Baked, too.")
    claude.ask("And rolls")
    claude.say("Rolled.")
    found = of(fork) if alone else of(claude, fork)
    (thread,) = found.threads.values()
    assert thread["thread_id"] == claude.session
    said = ["Heat the oven", "Bake bread", *([] if alone else ["And rolls"]), "And cake"]
    assert [run["said"] for run in found.runs] == said
    bread = found.runs[1]["run_id"]
    assert [run["run"].get("continues") for run in found.runs[2:]] == [bread] * (len(said) - 2)


def test_a_resumed_session_that_copies_the_other_one() -> None:
    claude = Claude("one")
    claude.ask("Heat the oven")
    claude.say("It is hot.")
    again = Claude("two")
    again.lines = [{**line, "sessionId": again.session} for line in claude.lines if isinstance(line, dict)]
    again.last, again._second = claude.last, 50
    again.ask("Bake bread")
    again.say("Baked.")
    found = of(claude, again)
    assert list(found.threads) == [claude.session]
    assert [run["said"] for run in found.runs] == ["Heat the oven", "Bake bread"]


def billed(found: Read) -> int:
    """The input tokens of all turns."""
    turns = [turn for thread in found.threads.values() for turn in thread["turns"]]
    return sum((turn.get("total_usage") or {}).get("input_tokens", 0) for turn in turns)


def test_an_answer_that_several_files_have_is_billed_once() -> None:
    """A fork of a fork whose origin is gone, and a sub-agent that began with a copy of the conversation."""
    claude = Claude("one")
    claude.ask("Heat the oven")
    claude.say("It is hot.")
    second = forked_claude(forked_claude(claude, None, "two"), None, "three")
    second.ask("And cake")
    second.say("Baked.")
    assert [billed(of(claude)), billed(of(claude, second))] == [103, 206]
    aside, homes = claude.agent("a1"), Homes()
    for line in claude.lines:
        assert isinstance(line, dict)
        aside.add(line["type"], message=line["message"], requestId="req_of_the_copy")
    aside.ask("And who are you?")
    aside.say("A copy.")
    readers = [Session(claude.file, claude.session, homes), Session("agent-a1", claude.session, homes, "a1")]
    found = read(zip(readers, (claude.lines, aside.lines), strict=True))
    assert (len(found.threads), billed(found)) == (2, 206)


def test_titles_of_other_sessions_and_worse_ones_are_no_title() -> None:
    claude = Claude("one")
    claude.lines.append({"type": "summary", "summary": "Of another session", "leafUuid": named("elsewhere")})
    claude.ask("Hello")
    claude.say("Hi.")
    claude.lines.append({"type": "summary", "summary": "Greeting", "leafUuid": claude.last})
    assert of(claude).threads[claude.session]["title"] == "Greeting"
    claude.lines.append({"type": "custom-title", "customTitle": "Mine", "sessionId": claude.session})
    claude.lines.append({"type": "ai-title", "aiTitle": "Its own", "sessionId": claude.session})
    assert of(claude).threads[claude.session]["title"] == "Mine"


def test_progress_is_left_out_and_does_not_cut_the_tree() -> None:
    claude = Claude("one")
    claude.ask("Heat the oven")
    claude.add("progress", data={"type": "hook_progress"})
    claude.say("It is hot.")
    claude.add("progress", data={"type": "hook_progress"})
    claude.ask("Bake bread")
    claude.say("Baked.")
    first, second = of(claude).runs
    assert len(first["events"]) == 2
    assert second["run"]["continues"] == first["run_id"]


@pytest.mark.parametrize("prompt", ["Only billing", [{"type": "text", "text": "Only billing"}]])
def test_what_is_typed_while_a_tool_runs_is_the_users(prompt: object) -> None:
    claude = Claude("one")
    claude.ask("Test")
    claude.call("t1")
    claude.result("t1")
    claude.add("attachment", attachment={"type": "queued_command", "prompt": prompt, "commandMode": "prompt"})
    claude.say("Two of three.")
    (turns,) = [thread["turns"] for thread in of(claude).threads.values()]
    assert len(turns) == 2
    (request,) = [message for message in turns[1]["messages"] if message["message_type"] == "request"]
    assert [part["part_kind"] for part in request["parts"]] == ["tool-return", "user-prompt"]
    assert request["parts"][1]["content"] == "Only billing"
    assert [message for message in turns[1]["messages"] if message["message_type"] == "system"] == []


@pytest.mark.parametrize(
    "attachment",
    [
        {"type": "queued_command", "prompt": "Task done", "commandMode": "task-notification"},
        {"type": "queued_command", "prompt": "Hi", "origin": {"kind": "peer", "from": "other"}},
        {"type": "queued_command", "prompt": "Hi", "isMeta": True},
        {"type": "todo_reminder", "content": []},
    ],
)
def test_other_attachments_are_no_words(attachment: dict[str, object]) -> None:
    claude = Claude("one")
    claude.ask("Test")
    claude.add("attachment", attachment=attachment)
    claude.say("Done.")
    (turns,) = [thread["turns"] for thread in of(claude).threads.values()]
    assert [m["event_type"] for m in turns[1]["messages"] if m["message_type"] == "system"] == ["data-app-attachment"]
    assert [message for message in turns[1]["messages"] if message["message_type"] == "request"] == []


def test_what_claude_code_notes_of_its_requests_is_left_out() -> None:
    """Kinds of lines in Claude Code 2.1.332, most of which repeat prompts and tools."""
    kinds = ("api-request-shape", "api-request-blob", "api-request", "cost-state", "tools-used", "resume-head-vouch")
    claude = Claude("one")
    claude.ask("Test")
    for kind in kinds:
        claude.lines.append({"type": kind, "sessionId": claude.session, "hash": "h", "value": "x" * 100})
    claude.say("Done.")
    (turns,) = [thread["turns"] for thread in of(claude).threads.values()]
    assert [message["message_type"] for message in turns[1]["messages"]] == ["response"]
