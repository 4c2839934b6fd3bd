"""Sessions of Copilot CLI: lines become runs, each with the calls of a model that it made."""

from typing import Any

import pytest

from pipeline.dialects.anthropic.copilot_session import Copilot as Reader
from pipeline.dialects.transcript import Homes
from tests.support.read_sessions import Read, read
from tests.support.sessions import PIXEL, Copilot
from turnmill.identity import thread_uuid


def of(*sessions: Copilot, title: str | None = None) -> Read:
    homes = Homes()
    return read([(Reader(str(n), one.session, homes, title), one.lines) for n, one in enumerate(sessions)])


def parts(turn: dict[str, Any]) -> list[tuple[str, Any]]:
    found = [part for message in turn["messages"] for part in message.get("parts", ())]
    return [(part["part_kind"], part.get("content", part.get("args"))) for part in found]


def beside(turn: dict[str, Any]) -> list[str]:
    return [message["event_type"] for message in turn["messages"] if "event_type" in message]


def test_a_turn_with_all_that_it_may_hold() -> None:
    copilot = Copilot("one", reasoningEffort="high")
    picture = {"assetId": "sha256:1", "type": "image", "mimeType": "image/png"}
    copilot.add("session.binary_asset", {**picture, "data": PIXEL})
    folder = {"type": "directory", "path": "/home/ada"}
    copilot.ask("What is here?", attachments=[{"type": "file", "path": "p.png", "assetId": "sha256:1"}, folder])
    copilot.say("I look.", call="c1", reasoningText="Where?", reasoningOpaque="c2ln")
    copilot.add("permission.requested", {"requestId": "r"})
    copilot.result("c1", result={"content": "a picture", "binaryResultsForLlm": [picture]})
    copilot.add("assistant.turn_end", {"turnId": "0"})
    copilot.say("", call="c2")
    copilot.result("c2", success=False, error={"message": "no such file", "code": "failure"})
    copilot.say("A picture.")
    copilot.add("session.idle", {}, ephemeral=True)
    copilot.lines[-1]["ephemeral"] = True  # type: ignore[index]  # it is a dict here
    totals = {"gpt-5.4": {"usage": {"inputTokens": 300, "outputTokens": 60}}}
    copilot.add("session.shutdown", {"shutdownType": "routine", "modelMetrics": totals})
    found = of(copilot, title="A listing")
    assert not found.refused
    (thread,) = found.threads.values()
    assert (thread["thread_id"], thread["title"]) == (copilot.session, "A listing")
    assert thread["metadata"] == {"cwd": "/home/ada/oven", "git_branch": "main", "copilot_version": "1.0.102"}
    user, agent = thread["turns"]
    text, image, other = user["parts"][0]["content"]
    assert (text, image["data"], other["block"]["attachment"]) == ("What is here?", PIXEL, folder)
    assert agent["completion_status"] == "complete"
    (_, said), *_ = (one for one in parts(agent) if one[0] == "tool-return")
    assert [block["type"] for block in said] == ["text", "image"]
    assert [one for one in parts(agent) if one[1] is not said] == [
        ("thinking", "Where?"),
        ("text", "I look."),
        ("tool-call", {"command": "ls"}),
        ("tool-call", {"command": "ls"}),
        ("tool-return", "no such file"),
        ("text", "A picture."),
    ]
    results = [part for message in agent["messages"] for part in message.get("parts", ()) if "status" in part]
    assert [part["status"] for part in results] == ["success", "error"]
    assert agent["total_usage"] == {
        "input_tokens": 300,
        "output_tokens": 60,
        "thinking_tokens": 15,
        "cache_read_tokens": 180,
    }
    assert beside(agent) == ["data-app-copilot-cli.permission.requested"]
    first, *others = (one["request"] for one in found.runs[0]["events"] if one["type"] == "turnmill.request")
    assert [one.keys() for one in others] == [{"messages"}] * 2, "what is not new is not said again"
    context = ["<current_datetime>now</current_datetime>"]
    asked = {"model": "gpt-5.4", "reasoning_effort": "high", "system": "You are a program", "context": context}
    assert {key: value for key, value in first.items() if key != "messages"} == asked


def test_each_prompt_is_a_run_and_one_said_meanwhile_belongs_to_it() -> None:
    copilot = Copilot("one")
    asked = [copilot.ask("One")]
    copilot.say("", call="c1")
    copilot.ask("The skill", source="skill-pdf")
    copilot.result("c1")
    copilot.ask("Faster", delivery="steering")
    copilot.add("assistant.turn_start", {})
    copilot.ask("Still faster", delivery="steering")
    copilot.say("1")
    asked.append(copilot.ask("Two", delivery="queued"))
    copilot.say("2")
    found = of(copilot)
    assert [run["run_id"] for run in found.runs] == [one["id"] for one in asked]
    assert [run["run"].get("continues") for run in found.runs] == [None, asked[0]["id"]]
    assert [run.get("end") for run in found.runs] == ["complete", None]
    (thread,) = found.threads.values()
    heard = [("tool-return", "a.txt"), ("user-prompt", "Faster"), ("user-prompt", "Still faster")]
    assert parts(thread["turns"][1])[1:] == [*heard, ("text", "1")]


def test_a_fork_is_a_branch_of_its_origin_and_a_rewind_goes_on_from_what_is_left() -> None:
    copilot, fork = Copilot("one"), Copilot("two")
    first = copilot.ask("One")
    copilot.say("1")
    fork.lines += copilot.lines[1:]
    copilot.ask("Two")
    copilot.say("2")
    fork._second = 50
    own = fork.ask("Another two")
    fork.say("2")
    found = of(copilot, fork, title="Of each")
    assert found.threads.keys() == {copilot.session}
    assert [run["run"].get("continues") for run in found.runs] == [None, first["id"], first["id"]]
    assert (found.runs[-1]["run_id"], found.runs[-1]["run"]["thread"].get("title")) == (own["id"], None)


@pytest.mark.parametrize("agent", ["a1", None], ids=["named", "by its call"])
def test_a_sub_agent_is_a_thread_of_its_own(agent: str | None) -> None:
    copilot = Copilot("one")
    asked = copilot.ask("Find it")
    copilot.say("", call="c1")
    of_child: dict[str, Any] = {} if agent else {"parentToolCallId": "c1"}
    copilot.add("subagent.started", {"toolCallId": "c1", "agentName": "finder"}, agent)
    if agent:
        copilot.ask("Where is it?", agent, source=f"agent-{copilot.session}")
    copilot.say("", agent, call="c2", **of_child)
    copilot.result("c2", agent, **of_child)
    copilot.say("Here.", agent, **of_child)
    copilot.result("c1")
    copilot.add("subagent.completed", {"toolCallId": "c1", "agentName": "finder"}, agent)
    copilot.say("It is here.")
    found = of(copilot)
    assert not found.refused
    child, _ = thread_uuid(f"{copilot.session}/{agent or 'c1'}")
    assert found.threads.keys() == {copilot.session, child}
    (run,) = (run for run in found.runs if run["thread_id"] == child)
    assert (run["agent_id"], run["end"]) == ("finder", "complete")
    assert run["run"]["parent_thread_id"] == copilot.session
    assert run["run"]["parent_run_id"] == asked["id"]
    spoken = found.threads[child]["turns"][-1]
    assert (spoken["completion_status"], spoken["total_usage"]["input_tokens"]) == ("complete", 200)
    assert parts(found.threads[copilot.session]["turns"][1])[-1] == ("text", "It is here.")


def test_a_sub_agents_own_sub_agent() -> None:
    copilot = Copilot("one")
    copilot.ask("Find it")
    copilot.add("subagent.started", {"toolCallId": "c1", "agentName": "finder"}, "a1")
    asked = copilot.ask("Where is it?", "a1")
    copilot.add("subagent.started", {"toolCallId": "c2", "agentName": "looker", "parentId": "a1"}, "a2")
    copilot.ask("Look", "a2")
    copilot.say("Here.", "a2")
    run = of(copilot).runs[-1]
    assert run["thread_id"] == thread_uuid(f"{copilot.session}/a2")[0]
    assert run["run"]["parent_thread_id"] == f"{copilot.session}/a1"
    assert run["run"]["parent_run_id"] == asked["id"]


def test_what_was_stopped_and_what_has_failed() -> None:
    copilot = Copilot("one")
    copilot.ask("One")
    copilot.say("I look.", call="c1")
    copilot.add("abort", {"reason": "user_initiated"})
    copilot.ask("Two")
    copilot.add("session.error", {"errorType": "query", "message": "400 bad", "statusCode": 400})
    copilot.ask("Three")
    copilot.add("subagent.started", {"toolCallId": "c2", "agentName": "finder"}, "a1")
    copilot.ask("Where?", "a1")
    copilot.add("subagent.failed", {"toolCallId": "c2", "error": "lost"}, "a1")
    copilot.add("assistant.turn_start", {})
    found = of(copilot)
    turns = found.threads[copilot.session]["turns"]
    agents = [turn for turn in turns if turn["turn_type"] == "agent"]
    assert [turn["completion_status"] for turn in agents] == ["interrupted"] * 3
    assert found.runs[0]["end"] == "aborted"
    assert beside(agents[1]) == ["error"]
    said = [turn["parts"][0]["content"] for turn in turns if turn["turn_type"] == "user"]
    assert said == ["One", "Two", "Three"]
    (child,) = (one for name, one in found.threads.items() if name != copilot.session)
    assert child["turns"][-1]["completion_status"] == "interrupted"


def test_the_models_own_order_and_an_answer_in_chunks() -> None:
    copilot = Copilot("one")
    copilot.ask("One")
    ordered: list[dict[str, Any]] = [{"type": "thinking", "thinking": "a", "signature": "c2ln"}]
    ordered += [{"type": "text", "text": "b"}, {"type": "tool_use", "id": "c1"}, {"type": "text", "text": "c"}]
    blocks = {"provider": "anthropic-messages", "orderedBlocks": ordered}
    copilot.say("bc", call="c1", reasoningText="a", reasoningBlocks=blocks)
    copilot.result("c1")
    chunks = {"apiCallId": "last", "toolRequests": [], "outputTokens": 7}
    copilot.add("assistant.message", {**chunks, "content": "d", "chunkIndex": 0, "chunkCount": 2})
    copilot.add("assistant.message", {**chunks, "content": "e", "chunkIndex": 1, "chunkCount": 2})
    (thread,) = of(copilot).threads.values()
    _, agent = thread["turns"]
    assert [one[0] for one in parts(agent)] == ["thinking", "text", "tool-call", "text", "tool-return", "text", "text"]
    responses = [message for message in agent["messages"] if message["message_type"] == "response"]
    assert [one["usage"]["output_tokens"] for one in responses] == [20, 7], "versions that note the output alone"


def test_other_lines_stay_and_compactions_steps_do_not() -> None:
    copilot = Copilot("one")
    copilot.add("session.warning", {"message": "before"})
    copilot.ask("One")
    copilot.say("1")
    copilot.add("session.model_change", {"newModel": "claude-sonnet-5"})
    copilot.add("session.compaction_start", {})
    copilot.add("model.messages_snapshot", {"messages": ["again"]})
    copilot.add("session.compaction_complete", {"success": True, "summaryContent": "They count"})
    copilot.add("of.tomorrow", {"type": "new"})
    copilot.add("tool.execution_complete", {"toolCallId": "u1", "success": True, "isUserRequested": True})
    copilot.say("2")
    found = of(copilot)
    (thread,) = found.threads.values()
    messages = [message for message in thread["turns"][1]["messages"] if "event_type" in message]
    kinds = ["session.warning", "session.compaction_complete", "of.tomorrow", "tool.execution_complete"]
    assert [one["event_type"] for one in messages] == [f"data-app-copilot-cli.{kind}" for kind in kinds]
    assert messages[2]["event_data"] == {"data": {"type": "new"}}
    asked = [event["request"]["model"] for event in found.runs[0]["events"] if event["type"] == "turnmill.request"]
    assert asked == ["gpt-5.4", "claude-sonnet-5"]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("user.message", {"attachments": [1], "content": "One"}),
        ("user.message", {}),
        ("assistant.message", {"toolRequests": [{}]}),
        ("assistant.message", {"apiCallId": "odd"}),
        ("tool.execution_complete", {"toolCallId": "c1"}),
        ("system.message", "text"),
    ],
)
def test_a_damaged_line_leaves_nothing_behind(kind: str, data: Any) -> None:
    copilot = Copilot("one")
    reader = Reader("file", copilot.session, Homes())
    copilot.ask("One")
    copilot.add("session.usage_record", {"usage": {"apiCallId": "odd", "inputTokens": "many"}})
    for line in copilot.lines:
        list(reader.read(line))  # type: ignore[arg-type]  # malformed on purpose
    with pytest.raises((KeyError, TypeError, AttributeError)):
        list(reader.read({"type": kind, "data": data, "id": "broken"}))
    steps = list(reader.read(copilot.say("1")))
    assert [getattr(step, "event", {}).get("type") for step in steps] == ["turnmill.request", "message"]
