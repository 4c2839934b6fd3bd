"""Lines of Claude Code, one rule each; `tests/corpus` has what the SDK made of whole runs."""

from itertools import count
from typing import Any

import pytest

from pipeline.dialects import DIALECTS
from pipeline.stores.costs.rows import KINDS_OF_COST, usage_rows
from pipeline.turns.tokens import tier_of
from tests.support.assembled import THREAD_ID, Assembled, assembled
from topics.json_text import Fields
from topics.thread_rules import check

NUMBERS = count()
INIT = {"type": "system", "subtype": "init", "session_id": "s1", "model": "claude-x", "tools": ["Read"]}


def said(message_id: str, *blocks: Any, parent: str | None = None, **rest: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 10, "output_tokens": 1}
    message = {"id": message_id, "model": "claude-y", "content": list(blocks), "stop_reason": None, "usage": usage}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent, "uuid": f"u{next(NUMBERS)}", **rest}


def told(content: Any, parent: str | None = None, **rest: Any) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    return {"type": "user", "message": message, "parent_tool_use_id": parent, "uuid": f"u{next(NUMBERS)}", **rest}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str, tool: str = "Read", **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": args}


def answer(name: str, content: Any = "ok", **rest: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **rest}


def result(output: int = 7, **rest: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 10, "output_tokens": output}
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "usage": usage,
        "stop_reason": "end_turn",
        **rest,
    }


def api(kind: str, **rest: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": {"type": kind, **rest}, "parent_tool_use_id": None}


def said_parts(got: Assembled) -> list[list[Any]]:
    return [[part.get("content", part.get("args")) for part in m["parts"]] for m in got.messages("response")]


def systems(got: Assembled, kind: str) -> list[Any]:
    return [m["event_data"] for m in got.messages("system") if m["event_type"] == kind] if got.agent_turns else []


def run(*events: dict[str, Any], **rest: Any) -> Assembled:
    got = assembled("claude-code", list(events), **rest)
    assert not [finding for finding in check(got.document) if finding.severity == "error"]
    return got


def test_lines_of_one_message_are_one_response_though_results_come_between() -> None:
    got = run(
        INIT,
        said("m1", text("Two.")),
        said("m1", call("c1")),
        told([answer("c1")]),
        said("m1", call("c2")),
        told([answer("c2", is_error=True)]),
        said("m2", text("Done.")),
        result(),
    )
    assert said_parts(got) == [["Two.", {}, {}], ["Done."]]
    assert [(part["tool_call_id"], part["status"]) for part in got.parts("request")] == [
        ("c1", "success"),
        ("c2", "error"),
    ]
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert not got.refused


def test_tokens_are_those_of_the_results_counted_once() -> None:
    got = run(INIT, said("m1", text("a")), said("m1", text("b")), result(7), INIT, said("m2", text("c")), result(8))
    assert got.agent_turns[0]["total_usage"] == {"input_tokens": 30, "output_tokens": 15, "cache_read_tokens": 20}


def test_tokens_of_partial_messages_stay_with_their_responses() -> None:
    start = {"id": "m1", "model": "claude-y", "usage": {"input_tokens": 5, "cache_read_input_tokens": 10}}
    got = run(
        INIT,
        api("message_start", message=start),
        api("content_block_start", index=0, content_block=text("")),
        api("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi"}),
        said("m1", text("Hi")),
        api("content_block_stop", index=0),
        api("message_delta", delta={"stop_reason": "max_tokens"}, usage={"output_tokens": 7}),
        api("message_stop"),
        result(7),
    )
    (response,) = got.messages("response")
    assert [part["content"] for part in response["parts"]] == ["Hi"]
    assert response["usage"] == {"input_tokens": 15, "output_tokens": 7, "cache_read_tokens": 10}
    assert response["finish_reason"] == "length"


@pytest.mark.parametrize("end", ["complete", "disconnected", None])
def test_without_a_result_a_run_is_interrupted_and_keeps_what_was_seen(end: str | None) -> None:
    start = {"id": "m2", "model": "claude-y"}
    got = run(
        INIT,
        said("m1", call("c1")),
        told([answer("c1")]),
        api("message_start", message=start),
        api("content_block_start", index=0, content_block=text("")),
        api("content_block_delta", index=0, delta={"type": "text_delta", "text": "Half"}),
        end=end,
    )
    (turn,) = got.agent_turns
    assert turn["completion_status"] == "interrupted"
    assert said_parts(got) == [[{}]]
    (shown,) = turn["meta:partial"]["messages"]
    assert [(part["content"], part["meta:unfinished"]) for part in shown["parts"]] == [("Half", True)]


@pytest.mark.parametrize("first", [INIT, {"type": "keep_alive"}])
def test_a_run_that_said_nothing_is_never_complete(first: dict[str, Any]) -> None:
    assert run(first, end="complete").agent_turns[0]["completion_status"] == "interrupted"


def test_pictures_of_a_prompt_are_files() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    got = run(INIT, told([text("See."), picture]), said("m1", text("Hi")), result())
    assert [part["part_kind"] for part in got.user_turns[0]["parts"]] == ["user-prompt", "file"]


def test_a_success_that_is_an_error_is_none_and_synthetic_lines_are_no_responses() -> None:
    failed = said("x", text("API Error: 400"), error="unknown", is_api_error_message=True, api_error_status=400)
    failed["message"]["model"] = "<synthetic>"
    got = run(INIT, failed, result(is_error=True, result="API Error: 400"))
    (turn,) = got.agent_turns
    assert turn["interruption"]["reason"] == "error"
    assert turn["interruption"]["detail"] == "API Error: 400"
    assert not got.messages("response")
    assert systems(got, "error") == [{"error": "unknown", "message": "API Error: 400", "status": 400}]
    assert turn["meta:partial"]["messages"][0]["parts"][0]["content"] == "API Error: 400"


def test_a_synthetic_line_of_a_run_that_went_well_is_in_no_response() -> None:
    note = said("x", text("No response requested."))
    note["message"]["model"] = "<synthetic>"
    got = run(INIT, note, said("m1", text("Hi")), result())
    assert said_parts(got) == [["Hi"]]
    assert "meta:partial" not in got.agent_turns[0]


def test_sub_agents_are_threads_of_their_own() -> None:
    got = run(
        INIT,
        said("m1", call("a1", "Agent", subagent_type="scout")),
        told([text("Look.")], parent="a1"),
        said("s1", call("c1"), parent="a1"),
        said("s2", call("a2", "Agent"), parent="a1"),
        said("t1", text("Deep."), parent="a2"),
        told([answer("c1")], parent="a1"),
        told([answer("a2")], parent="a1"),
        told([answer("a1", "found")]),
        said("m2", text("Done.")),
        result(),
    )
    assert [len(m["parts"]) for m in got.messages("response")] == [1, 1]
    (link,) = systems(got, "custom:claude-code.subagent")
    children = [record for record in got.records if record["thread_id"] != THREAD_ID]
    first, second = (record for record in children if record["turn"]["turn_type"] == "agent")
    assert first["thread_id"] == link["thread_id"]
    assert first["agent_id"] == "scout"
    assert first["turn"]["completion_status"] == "complete"
    assert first["links"] == [{"thread_id": THREAD_ID, "relation": "spawned_from", "metadata": {"tool_call_id": "a1"}}]
    assert second["links"][0]["thread_id"] == first["thread_id"]
    assert [record["turn"]["parts"] for record in children if record["turn"]["turn_type"] == "user"] == [
        [{"part_kind": "user-prompt", "content": "Look."}]
    ]


def test_what_a_sub_agent_that_was_cut_off_had_said_is_shown_in_its_thread() -> None:
    got = run(INIT, said("m1", call("a1", "Agent")), said("s1", text("Half"), parent="a1"))
    child = got.records[-1]["turn"]
    assert child["completion_status"] == "interrupted"
    assert child["meta:partial"]["messages"][0]["parts"][0]["content"] == "Half"


def test_a_message_id_that_is_used_again_is_another_response() -> None:
    got = run(
        INIT,
        said("x", call("c0", path="a"), request_id="r1"),
        told([answer("c0", "1")]),
        said("x", call("c0", path="b"), request_id="r2"),
        told([answer("c0", "2")]),
        result(),
    )
    assert said_parts(got) == [[{"path": "a"}], [{"path": "b"}]]
    assert [part["content"] for part in got.parts("request")] == ["1", "2"]


def test_a_line_that_comes_twice_counts_once() -> None:
    first, last = said("m1", text("Hi")), result(uuid="r")
    got = run(INIT, first, first, last, last)
    assert said_parts(got) == [["Hi"]]
    assert got.agent_turns[0]["total_usage"]["output_tokens"] == 7


def test_a_beginning_that_comes_twice_is_one_message() -> None:
    start = api("message_start", message={"id": "m1", "model": "claude-y", "usage": {"input_tokens": 5}})
    got = run(INIT, start, start, end="aborted")
    assert got.agent_turns[0]["total_usage"] == {"input_tokens": 5}


def test_prompts_are_the_users_turn_and_notes_of_the_program_are_none() -> None:
    got = run(
        INIT,
        told("First?", isReplay=True),
        said("m1", text("One.")),
        result(),
        told("Second?", isReplay=True),
        told("Go on.", isSynthetic=True),
        told("<local-command-stdout>x</local-command-stdout>"),
        said("m1", text("Two.")),
        result(),
        run={"request": {"type": "user", "message": {"role": "user", "content": "First?"}}},
    )
    assert [turn["parts"][0]["content"] for turn in got.user_turns] == ["First?"]
    assert [part["content"] for part in got.parts("request")] == ["Second?"]
    assert said_parts(got) == [["One."], ["Two."]]
    assert len(systems(got, "custom:claude-code.note")) == 2


def test_denials_hooks_compaction_and_permissions_are_kept() -> None:
    asked = {"subtype": "can_use_tool", "tool_name": "Bash"}
    got = run(
        INIT,
        {"type": "system", "subtype": "hook_response", "hook_name": "PreToolUse", "outcome": "success"},
        {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto"}},
        {"type": "control_request", "request_id": "q1", "request": asked},
        {"type": "control_response", "response": {"request_id": "q1", "subtype": "success"}},
        {"type": "control_response", "response": {"request_id": "init", "response": {"account": {"email": "a@b"}}}},
        {"type": "hologram", "size": 3},
        {"type": "keep_alive"},
        said("m1", text("Hi")),
        result(permission_denials=[{"tool_name": "Bash"}], result="Hi"),
    )
    names = [m["event_type"].removeprefix("custom:claude-code.") for m in got.messages("system")]
    kinds = ["init", "hook_response", "compact_boundary", "control_request", "control_response", "data-app-hologram"]
    assert names == [*kinds, "result"]
    (end,) = systems(got, "custom:claude-code.result")
    assert end["permission_denials"] == [{"tool_name": "Bash"}]
    assert "result" not in end


def test_an_interrupt_is_the_users() -> None:
    stopped = said("m1", text("Half"), aborted=True)
    note = told([text("[Request interrupted by user]")])
    end = result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming")
    (turn,) = run(INIT, stopped, note, end).agent_turns
    assert turn["interruption"]["reason"] == "user_cancelled"
    assert turn["meta:partial"]["messages"][0]["parts"][0]["content"] == "Half"


def test_a_result_without_uuid_that_comes_twice_counts_once() -> None:
    late = {"type": "system", "subtype": "session_state_changed", "state": "idle"}
    got = run(INIT, said("m1", text("Hi")), result(7), late, result(7))
    assert got.agent_turns[0]["total_usage"]["output_tokens"] == 7
    assert len(systems(got, "custom:claude-code.result")) == 1


def test_equal_results_of_two_turns_count_both() -> None:
    for between in ([INIT], [said("m2", text("again"))]):
        got = run(INIT, said("m1", text("Hi")), result(7), *between, result(7))
        assert got.agent_turns[0]["total_usage"]["output_tokens"] == 14


def test_a_turn_that_goes_on_behind_a_result_needs_its_own() -> None:
    events = [INIT, said("m1", text("Hi")), result(), INIT]
    assert run(*events).agent_turns[0]["completion_status"] == "interrupted"
    ended, states = DIALECTS["claude-code"].ended, []
    for event in events:
        states.append(ended(event, states[-1] if states else None))
    assert states == [None, None, "complete", None]


def test_what_is_malformed_is_refused_and_leaves_nothing() -> None:
    transcript = {**said("m1", text("x")), "sessionId": "s", "parentUuid": None}
    got = run(
        transcript,
        told([answer("nobody")]),
        api("content_block_delta", index=0, delta={"type": "text_delta", "text": "x"}),
        said("m1", text("a"), {"type": "text"}),
        said("m2", text("Hi")),
        result(),
    )
    assert said_parts(got) == [["Hi"]]
    reasons = ["session transcript", "no call has the id", "no message_start", "'text' is missing"]
    assert all(reason in detail for reason, detail in zip(reasons, got.refused, strict=True))


def test_unknown_fields_of_a_line_and_of_its_message_are_kept() -> None:
    line = said("m1", text("Hi"))
    line |= {"later": 1, "message": {**line["message"], "context_management": {"edits": []}}}
    (response,) = run(INIT, line, result()).messages("response")
    assert response["meta:claude-code"]["later"] == 1
    assert response["meta:anthropic"]["context_management"] == {"edits": []}


# What calls cost. Shapes as in claude-agent-sdk 0.2.189 (`ResultMessage`, `ModelUsage`); claude-sonnet-4-5 costs $3 for
# a million tokens of input, $15 of output, $0.30 read from the cache, and $6 written to it for an hour.
SONNET, HAIKU = "claude-sonnet-4-5", "claude-haiku-4-5"
HOUR = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 80_000}
WROTE: Fields = {"input_tokens": 1_000, "cache_creation_input_tokens": 80_000, "output_tokens": 500}
READ: Fields = {"input_tokens": 100, "cache_read_input_tokens": 81_000, "output_tokens": 200}


def answered(number: int, usage: Fields, **more: Any) -> Fields:
    message = {"id": f"m{number}", "model": SONNET, "content": [{"type": "text", "text": f"{number}"}], "usage": usage}
    return {"type": "assistant", "message": {**message, "stop_reason": "end_turn", **more}, "session_id": "s"}


def charged(usage: Fields, dollars: float, **models: Fields) -> Fields:
    named = {name.replace("_", "-"): model for name, model in models.items()}
    told = {"subtype": "success", "is_error": False, "usage": usage, "total_cost_usd": dollars}
    return {"type": "result", "session_id": "s", **told, **({"modelUsage": named} if named else {})}


def model(read: int, written: int, fresh: int, output: int, dollars: float) -> Fields:
    counts = {"cacheReadInputTokens": read, "cacheCreationInputTokens": written, "inputTokens": fresh}
    return {**counts, "outputTokens": output, "webSearchRequests": 0, "costUSD": dollars, "contextWindow": 200_000}


def billed(got: Assembled) -> list[tuple[str, str, int | None]]:
    rows = [row for record in got.records for row in usage_rows(record)]
    return [(row["model"], row["purpose"], row["cost_nano_usd"]) for row in rows]


def two_prompts() -> list[Fields]:
    wrote = {**WROTE, "cache_creation": HOUR}
    small = model(0, 0, 700, 100, 0.0012)
    first = charged(wrote, 0.4917, claude_sonnet_4_5=model(0, 80_000, 1_000, 500, 0.4905), claude_haiku_4_5=small)
    both = model(81_000, 80_000, 1_100, 700, 0.5181)
    second = charged(READ, 0.5193, claude_sonnet_4_5=both, claude_haiku_4_5=small)
    return [answered(1, wrote), first, answered(2, READ), second]


def test_each_answer_costs_what_the_process_sums_have_grown_by_and_other_models_are_beside() -> None:
    got = assembled("claude-code", two_prompts())
    first, second, small = got.messages("response")
    assert billed(got) == [(SONNET, "", 490_500_000), (SONNET, "", 27_600_000), (HAIKU, "background", 1_200_000)]
    assert first["usage"]["cache_write_1h_tokens"] == 80_000
    assert (small["parts"], small["usage"]["input_tokens"], second["usage"]["input_tokens"]) == ([], 700, 81_100)
    total = got.agent_turns[0]["total_usage"]
    assert (total["input_tokens"], total["output_tokens"]) == (162_800, 800)


def test_a_process_that_served_earlier_runs_tells_nothing_about_this_one() -> None:
    got = assembled("claude-code", two_prompts()[2:])
    assert billed(got) == [(SONNET, "", 27_600_000)]
    assert "cost_usd" not in got.messages("response")[0]["usage"], "it is computed"


def test_what_earlier_runs_of_the_process_have_cost_is_not_billed_again() -> None:
    first, second = two_prompts()[:2], two_prompts()[2:]
    sums = {"type": "turnmill.sums", **{key: first[1][key] for key in ("total_cost_usd", "modelUsage")}}
    assert billed(assembled("claude-code", first)) == [(SONNET, "", 490_500_000), (HAIKU, "background", 1_200_000)]
    assert billed(assembled("claude-code", [sums, *second])) == [(SONNET, "", 27_600_000)]
    both = assembled("claude-code", [{**sums, "total_cost_usd": 9.9}, *first])
    assert billed(both) == billed(assembled("claude-code", first)), "another process has begun"


def test_sums_of_a_model_that_no_line_names_are_those_of_earlier_runs_if_they_are_larger() -> None:
    """As behind a gateway that serves another model than the program has asked for."""
    named = [
        {**line, "message": {**line["message"], "model": "m"}} if "message" in line else line for line in two_prompts()
    ]
    assert sum(cost or 0 for *_, cost in billed(assembled("claude-code", named[:2]))) == 491_700_000
    assert billed(assembled("claude-code", named[2:])) == [("m", "", None)]


def test_the_sums_begin_anew_after_a_reset() -> None:
    events = two_prompts()
    again = charged(READ, 0.0276, claude_sonnet_4_5=model(81_000, 0, 100, 200, 0.0276))
    reset = {"type": "conversation_reset", "new_conversation_id": "c", "session_id": "s"}
    got = assembled("claude-code", [*events[:2], reset, events[2], again])
    assert billed(got) == [(SONNET, "", 490_500_000), (SONNET, "", 27_600_000), (HAIKU, "background", 1_200_000)]


def test_tokens_of_a_compaction_are_beside_and_share_the_cost_of_their_model() -> None:
    compact = {"type": "system", "subtype": "compact_boundary", "session_id": "s"}
    used = charged(READ, 0.6, claude_sonnet_4_5=model(81_000, 0, 150_100, 5_200, 0.5526))
    got = assembled("claude-code", [compact, answered(1, READ), used])
    assert billed(got) == [(SONNET, "", 27_600_000), (SONNET, "background", 525_000_000)]
    assert got.messages("response")[1]["usage"]["input_tokens"] == 150_000


def test_each_call_keeps_its_own_input_where_only_the_output_is_a_sum() -> None:
    """Five calls of 60,010 tokens are each below the tier of 200,000 tokens, though their sum is above it."""
    call = {"input_tokens": 10, "cache_read_input_tokens": 60_000, "output_tokens": 1}
    lines = [answered(number, call, stop_reason=None) for number in range(5)]
    sums = {"input_tokens": 50, "cache_read_input_tokens": 300_000, "output_tokens": 1_000}
    got = assembled("claude-code", [*lines, charged(sums, 0.10515)])
    assert [message["usage"]["input_tokens"] for message in got.messages("response")] == [60_010] * 5
    assert sum(cost or 0 for *_, cost in billed(got)) == 105_150_000
    untold = assembled("claude-code", [*lines, {**charged(sums, 0), "total_cost_usd": None}])
    assert sum(cost or 0 for *_, cost in billed(untold)) == 105_150_000


def test_a_sum_of_calls_that_are_not_told_is_marked() -> None:
    lines = [answered(number, {}, stop_reason=None) for number in range(2)]
    got = assembled("claude-code", [*lines, charged({"input_tokens": 250_000, "output_tokens": 9}, 0)])
    assert got.messages("response")[-1]["usage"]["meta:summed"] is True
    (row,) = [row for record in got.records for row in usage_rows(record) if row["input_tokens"]]
    assert KINDS_OF_COST[row["cost_kind"]] == "estimated"


def test_searches_thoughts_and_the_tier_are_kept() -> None:
    details = {"server_tool_use": {"web_search_requests": 2}, "output_tokens_details": {"thinking_tokens": 60}}
    usage = {**READ, **details, "service_tier": "priority", "speed": "standard"}
    (answer,) = assembled("claude-code", [answered(1, usage), charged(usage, 0)]).messages("response")
    assert (answer["usage"]["web_searches"], answer["usage"]["thinking_tokens"]) == (2, 60)
    assert tier_of(answer["usage"]) == "priority"
    assert "speed" not in answer["usage"]


def test_advice_and_compactions_in_a_message_are_beside_it() -> None:
    advice: Fields = {"type": "advisor_message", "model": HAIKU, "input_tokens": 700, "output_tokens": 100}
    usage = {**READ, "iterations": [advice, {"type": "message", **READ}]}
    lines = [answered(1, usage, stop_reason=None), answered(1, usage)]
    alone = assembled("claude-code", [*lines, charged(READ, 0)])
    assert [row[:2] for row in billed(alone)] == [(SONNET, ""), (HAIKU, "advisor")]
    assert alone.agent_turns[0]["total_usage"]["input_tokens"] == 81_800
    models = {
        "claude_sonnet_4_5": model(81_000, 0, 100, 200, 0.0276),
        "claude_haiku_4_5": model(0, 0, 700, 100, 0.0012),
    }
    got = assembled("claude-code", [*lines, charged(READ, 0.0288, **models)])
    assert billed(got) == [(SONNET, "", 27_600_000), (HAIKU, "advisor", 1_200_000)]


def test_words_behind_a_result_stay_behind_it() -> None:
    """Claude Code writes each block of a message as a line; the order is that of the user's lines."""
    lines = [said("m1", text("Wait.")), said("m1", call("t1")), told([answer("t1")]), told([text("stop that")])]
    got = run(INIT, *lines, said("m2", text("Ok.")), result())
    assert [part["part_kind"] for part in got.parts("request")] == ["tool-return", "user-prompt"]
