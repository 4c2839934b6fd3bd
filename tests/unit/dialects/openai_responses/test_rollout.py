"""Rollouts of Codex: lines become runs, each with the calls of the Responses API that Codex made."""

import json
from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.openai_responses.rollout import Rollout
from pipeline.dialects.transcript import Homes
from tests.support.read_sessions import Read, read
from tests.support.sessions import PIXEL, Codex, named


def of(*sessions: Codex, titles: dict[str, str] | None = None) -> Read:
    homes = Homes()
    return read([(Rollout(one.file, one.session, homes, titles), one.lines) for one in sessions])


def test_a_turn_with_all_that_it_may_hold() -> None:
    codex = Codex("one")
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    codex.ask("t-1", "What is this?", picture)
    codex.think("A pixel")
    codex.call("c1")
    codex.event("exec_command_end", call_id="c1", exit_code=0)
    codex.say("A pixel.")
    codex.done("t-1")
    found = of(codex, titles={codex.session: "A pixel"})
    assert not found.refused
    (thread,) = found.threads.values()
    assert (thread["thread_id"], thread["title"]) == (codex.session, "A pixel")
    assert thread["metadata"] == {
        "cwd": "/home/ada/oven",
        "git_branch": "main",
        "codex_version": "0.60.0",
        "originator": "codex_cli_rs",
    }
    user, agent = thread["turns"]
    assert user["parts"][0]["content"][0] == "What is this?"
    assert user["parts"][0]["content"][1]["data"] == PIXEL
    assert user["submitted_at"] == "2026-01-20T10:00:04.000Z"
    assert agent["completion_status"] == "complete"
    first, beside, result, second = agent["messages"]
    assert [part["part_kind"] for part in first["parts"]] == ["thinking", "tool-call"]
    assert first["parts"][0]["signature"] == "gAAAA"
    assert first["parts"][1]["args"] == {"command": ["ls"]}
    assert beside["event_type"] == "data-app-codex.exec_command_end"
    assert result["parts"][0] == result["parts"][0] | {"content": "a.txt", "tool_name": "shell"}
    assert second["parts"][0]["content"] == "A pixel."
    assert {first["model_name"], second["model_name"]} == {"gpt-5-codex"}
    counts = {"input_tokens": 100, "cache_read_tokens": 60, "output_tokens": 10, "thinking_tokens": 4}
    assert [one["usage"] | counts == one["usage"] for one in (first, second)] == [True, True]
    assert agent["total_usage"]["total_tokens"] == 220, "though each count came twice"


def test_context_is_asked_beside_the_words_and_once() -> None:
    codex = Codex("one")
    codex.ask("t-1", "List")
    codex.call("c1")
    codex.call("c2")
    codex.say("a.txt")
    (run,) = of(codex).runs
    first, *others = [event["request"] for event in run["events"] if event["type"] == "turnmill.request"]
    assert first["instructions"] == "Be brief."
    assert first["turn_context"]["effort"] == "high"
    assert first["context"][0]["content"][0]["text"].startswith("<environment_context>")
    assert [item["content"][0]["text"] for item in first["input"]] == ["List"]
    assert [list(body) for body in others] == [["input"]] * 2


def test_the_users_words_may_look_like_markup() -> None:
    codex = Codex("one")
    codex.ask("t-1", "<div>broken</div>")
    codex.say("Mended.")
    assert of(codex).runs[0]["said"] == "<div>broken</div>"


def test_a_turn_that_was_broken_off() -> None:
    codex = Codex("one")
    codex.ask("t-1", "List")
    codex.call("c1", output=None)
    codex.event("turn_aborted", reason="interrupted")
    codex.ask("t-2", "Stop")
    codex.event("turn_aborted", reason="interrupted")
    codex.ask("t-3", "Go on")
    codex.say("Yes.")
    turns = of(codex).threads[codex.session]["turns"]
    assert [turn["turn_type"] for turn in turns] == ["user", "agent"] * 3
    assert [turn.get("interruption", {}).get("reason") for turn in turns[1::2]] == ["user_cancelled"] * 2 + [None]


def test_what_was_taken_back_is_another_branch() -> None:
    codex = Codex("one")
    for number, text in enumerate(("Heat the oven", "Bake bread", "And rolls")):
        codex.ask(f"t-{number}", text)
        codex.say("Done.")
        codex.done(f"t-{number}")
    codex.event("thread_rolled_back", num_turns=2)
    codex.ask("t-3", "Bake cake")
    codex.say("Done.")
    runs = of(codex).runs
    assert [run["run"].get("continues") for run in runs] == [None, "t-0", "t-1", "t-0"]
    turns = of(codex).threads[codex.session]["turns"]
    assert {turn["meta:run_id"] for turn in turns if turn["meta:branch"].get("version")} == {"t-1", "t-3"}


def test_words_within_a_turn_belong_to_it() -> None:
    codex = Codex("one")
    codex.ask("t-1", "List")
    codex.call("c1")
    codex.user("Only the newest")
    codex.say("a.txt")
    codex.done("t-1")
    (run,) = of(codex).runs
    assert [len(event["request"]["input"]) for event in run["events"] if "request" in event] == [1, 2]


@pytest.mark.parametrize("marked", [False, True])
def test_a_fork_counts_nothing_twice(marked: bool) -> None:  # noqa: FBT001
    codex = Codex("one")
    codex.ask("t-1" if marked else None, "Heat the oven")
    codex.say("It is hot.")
    fork = Codex("two", forked_from_id=codex.session)
    fork.lines, fork.total = fork.lines + codex.lines, codex.total
    fork.total = codex.total
    fork.ask("t-2" if marked else None, "Bake bread")
    fork.say("Baked.")
    found = of(codex, fork)
    assert list(found.threads) == [codex.session]
    assert [run["said"] for run in found.runs] == ["Heat the oven", "Bake bread"]
    assert found.runs[1]["run"]["continues"] == found.runs[0]["run_id"]


def test_a_session_that_another_one_spawned() -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": named("parent"), "depth": 1}}}
    codex = Codex("one", source=source)
    codex.ask("t-1", "Look for it")
    codex.say("Found.")
    links = of(codex).threads[codex.session]["relationships"]["links"]
    assert [(link["thread_id"], link["relation"]) for link in links] == [(named("parent"), "spawned_from")]


def test_lines_of_before_there_were_envelopes() -> None:
    name = named("old")
    meta = {"id": name, "timestamp": "2025-05-01T10:00:00.000Z", "instructions": None, "git": {"branch": "main"}}
    lines: list[Any] = [
        meta,
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List"}]},
        {"record_type": "state"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a.txt"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Thanks"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sure."}]},
    ]
    found = read([(Rollout("old", name, Homes()), lines)])
    assert not found.refused
    turns = found.threads[name]["turns"]
    assert [turn["turn_type"] for turn in turns] == ["user", "agent"] * 2
    assert turns[1]["completion_status"] == "complete"
    assert found.threads[name]["metadata"] == {"git_branch": "main"}


def test_unknown_lines_are_kept_and_replaced_history_is_not_said_again() -> None:
    codex = Codex("one")
    codex.ask("t-1", "List")
    codex.add("compacted", {"message": "So far: nothing", "replacement_history": [{"role": "user"}]})
    codex.item(type="brand_new", value=7)
    codex.event("brand_new_event", value=8)
    codex.say("a.txt")
    (turn,) = [one for one in of(codex).threads[codex.session]["turns"] if one["turn_type"] == "agent"]
    kept = {m["event_type"]: m["event_data"] for m in turn["messages"] if m["message_type"] == "system"}
    assert kept == {
        "data-app-codex.compacted": {"message": "So far: nothing"},
        "data-app-codex.brand_new": {"value": 7},
        "data-app-codex.brand_new_event": {"value": 8},
    }


def compact(codex: Codex, used: int) -> None:
    """What Codex 0.155 writes for a compaction: its record is in no total; other calls have a record, too."""
    usage = {
        "input_tokens": used,
        "cached_input_tokens": used - 500,
        "output_tokens": 3_000,
        "total_tokens": used + 3_000,
    }
    for response in ("resp_before", "resp_compact"):
        codex.add("token_usage_record", {"response_id": response, "usage": usage})
    codex.add("compacted", {"message": "", "replacement_history": [], "compaction_response_id": "resp_compact"})


def test_a_compaction_is_billed_beside_the_answer() -> None:
    codex = Codex("one")
    codex.ask("t-1", "Read")
    codex.say("Read.")
    codex.done("t-1")
    codex.ask("t-2", "Find it")
    compact(codex, 182_500)
    codex.say("Line 4.")
    codex.done("t-2")
    _, first, _, second = of(codex).threads[codex.session]["turns"]
    assert first["total_usage"]["input_tokens"] == 100
    beside, answer = [one for one in second["messages"] if one["message_type"] == "response"]
    if "meta:purpose" in answer:
        beside, answer = answer, beside
    assert (beside["meta:purpose"], beside["model_name"], beside["parts"]) == ("compaction", "gpt-5-codex", [])
    counts = {"input_tokens": 182_500, "cache_read_tokens": 182_000, "output_tokens": 3_000}
    assert beside["usage"] | counts == beside["usage"]
    assert answer["usage"]["input_tokens"] == 100
    assert (second["total_usage"]["input_tokens"], second["total_usage"]["output_tokens"]) == (182_600, 3_010)
    (event,) = [one for one in second["messages"] if one["message_type"] == "system"]
    assert event["event_data"] == {"message": "", "compaction_response_id": "resp_compact"}


def test_a_compaction_that_was_asked_for_is_a_task_of_its_own() -> None:
    """As `/compact` behind the last answer; the same whether or not the session goes on."""
    totals = []
    for goes_on in (False, True):
        codex = Codex("one")
        codex.ask("t-1", "Read")
        codex.say("Read.")
        codex.done("t-1")
        codex.event("task_started", turn_id="t-2")
        compact(codex, 182_500)
        codex.done("t-2")
        if goes_on:
            codex.ask("t-3", "Find it")
            codex.say("Line 4.")
            codex.done("t-3")
        agents = [turn for turn in of(codex).threads[codex.session]["turns"] if turn["turn_type"] == "agent"]
        totals.append([turn["total_usage"]["input_tokens"] for turn in agents])
    assert totals == [[100, 182_500], [100, 182_500, 100]]


def test_a_fork_does_not_bill_its_origins_compaction_again() -> None:
    codex = Codex("one")
    codex.ask("t-1", "Read")
    codex.say("Read.")
    codex.done("t-1")
    compact(codex, 182_500)
    fork = Codex("two", forked_from_id=codex.session)
    fork.lines, fork.total = fork.lines + codex.lines, codex.total
    for session, words in ((codex, "Find it"), (fork, "Drop it")):
        session.ask(f"t-{words}", words)
        session.say("Done.")
        session.done(f"t-{words}")
    turns = [turn for thread in of(codex, fork).threads.values() for turn in thread["turns"]]
    totals = [turn["total_usage"]["input_tokens"] for turn in turns if turn["turn_type"] == "agent"]
    assert sorted(totals) == [100, 100, 182_600]


def test_the_items_go_out_as_they_came_in() -> None:
    codex = Codex("one")
    codex.ask("t-1", "What is this?", {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"})
    codex.think("A pixel")
    codex.call("c1")
    codex.item(type="custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c2")
    codex.item(type="custom_tool_call_output", call_id="c2", output="Done")
    codex.say("A pixel.")
    codex.done("t-1")
    codex.ask("t-2", "Thanks")
    codex.say("Sure.")
    payloads = [line["payload"] for line in codex.lines if isinstance(line, dict) and line["type"] == "response_item"]
    # Codex keeps no ids of thoughts, without which no server takes them.
    held = [item for item in payloads if item["type"] != "reasoning" and "<environment_context>" not in str(item)]
    written = FORMATS["openai-responses"].write(of(codex).threads[codex.session])
    assert [essence(item) for item in written] == [essence(item) for item in held]


def essence(item: dict[str, Any]) -> dict[str, Any]:
    """An item without what may be left out or spelled otherwise: marks, and the kind of a short message."""
    kept = {key: item[key] for key in ("role", "name", "input", "call_id", "output", "summary") if key in item}
    kept["type"] = item.get("type", "message")
    if item.get("arguments") is not None:
        kept["arguments"] = json.loads(item["arguments"])
    content = item.get("content")
    if content:
        pieces = [{"text": content}] if isinstance(content, str) else content
        kept["content"] = [piece.get("text") or piece.get("image_url") for piece in pieces]
    return kept
