"""pi-agent events -> turns: one test for each kind of event, and for each trap of the protocol."""

import pytest

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Context
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import Run
from pipeline.dialects import DIALECTS
from pipeline.dialects.pi_agent.messages import usage
from pipeline.turns import tokens
from tests.property.records import envelope
from tests.support.assembled import START, assembled
from topics.thread_rules import check

USAGE = {
    "input": 7,
    "output": 5,
    "cacheRead": 100,
    "cacheWrite": 20,
    "totalTokens": 132,
    "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0.3, "cacheWrite": 0.4, "total": 1.0},
}


def user(text="Hi", at=START):
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": at}


def assistant(*content, stop="stop", at=START + 50, **fields):
    message = {"role": "assistant", "content": list(content), "api": "anthropic-messages", "provider": "anthropic"}
    return {**message, "model": "claude", "usage": USAGE, "stopReason": stop, "timestamp": at, **fields}


def text(words):
    return {"type": "text", "text": words}


def call(call_id="c1", name="get", arguments=None):
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments if arguments is not None else {}}


def result(call_id="c1", words="ok", at=START + 80, *, error=False, name="get", **fields):
    message = {"role": "toolResult", "toolCallId": call_id, "toolName": name, "content": [text(words)]}
    return {**message, "isError": error, "timestamp": at, **fields}


def heard(*messages):
    """The events of messages that are said in one go."""
    return [{"type": kind, "message": m} for m in messages for kind in ("message_start", "message_end")]


def run(*messages, **end):
    return [{"type": "agent_start"}, *heard(*messages), {"type": "agent_end", "messages": list(messages), **end}]


def test_a_run_is_a_user_turn_and_an_agent_turn():
    got = assembled("pi-agent", run(user(), assistant(text("Hello"))))
    assert [turn["turn_type"] for turn in got.turns] == ["user", "agent"]
    prompt = {"part_kind": "user-prompt", "content": "Hi", "meta:pi": {"timestamp": START}}
    assert got.user_turns[0]["parts"] == [prompt]
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert got.parts("response") == [{"part_kind": "text", "content": "Hello"}]
    assert got.messages("response")[0]["model_name"] == "claude"
    assert got.messages("response")[0]["provider_name"] == "anthropic"
    assert not got.refused
    assert not check(got.document)


def test_usage_counts_what_caches_held_as_input_and_keeps_cost_and_split():
    got = assembled("pi-agent", run(user(), assistant(text("Hello"))))
    usage = got.messages("response")[0]["usage"]
    assert usage["input_tokens"] == 127
    assert (usage["cache_read_tokens"], usage["cache_write_tokens"], usage["output_tokens"]) == (100, 20, 5)
    assert usage["cost"]["total"] == 1.0
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 127
    assert got.agent_turns[0]["total_usage"]["cost"]["total"] == 1.0


def test_deltas_are_for_display_and_message_end_is_what_counts():
    update = {
        "type": "message_update",
        "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "X"},
    }
    events = run(user(), assistant(text("Hello")))
    events[4:4] = [update, {**update, "usage": USAGE}]  # after the message_start of the answer
    assert assembled("pi-agent", events).parts("response") == [{"part_kind": "text", "content": "Hello"}]


@pytest.mark.parametrize("compact", [True, False])
def test_a_response_that_broke_off_has_its_model_and_its_tokens_so_far(compact):
    """pi-agent-core 1.5.2: Anthropic tells the input's tokens as the message starts, and pi with each update."""
    opened = assistant(stop="pending", usage=dict.fromkeys(("input", "output"), 0), responseId="msg_1")
    whole = {} if compact else {"message": {**opened, "content": [text("Hel")], "usage": USAGE}}
    steps = [{"type": "text_start", "contentIndex": 0}, {"type": "text_delta", "contentIndex": 0, "delta": "Hel"}]
    updates = [{"type": "message_update", "assistantMessageEvent": step, "usage": USAGE, **whole} for step in steps]
    spent = heard(user(), assistant(call(), stop="toolUse"), result())
    turn = assembled(
        "pi-agent", [{"type": "agent_start"}, *spent, {"type": "message_start", "message": opened}, *updates]
    ).agent_turns[0]
    (shown,) = turn["meta:partial"]["messages"]
    assert (shown["model_name"], shown["provider_name"], shown["provider_response_id"]) == (
        "claude", "anthropic", "msg_1",
    )  # fmt: skip
    assert (shown["usage"]["input_tokens"], shown["parts"][0]["content"]) == (127, "Hel")
    assert (turn["total_usage"]["input_tokens"], turn["total_usage"]["cost"]["total"]) == (254, 2.0)


def test_the_first_update_with_content_is_the_time_to_the_first_token():
    said = assistant(text("Hello"))
    start = {"type": "message_update", "assistantMessageEvent": {"type": "start"}, "message": said}
    delta = {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": "H"}, "message": said}
    events = [{"type": "agent_start"}, {"type": "message_start", "message": said}, start, delta]
    events += [{"type": "message_end", "message": said}, {"type": "agent_end", "messages": [said]}]
    got = assembled("pi-agent", events)
    assert got.records[0]["timings"] == [{"ttft_ms": 30, "duration_ms": 40}]


def test_turn_and_tool_events_say_nothing_new():
    inner = [
        {"type": "turn_start"},
        {"type": "tool_execution_start", "toolCallId": "c1", "toolName": "get", "args": {}},
    ]
    inner += [
        {"type": "tool_execution_update"},
        {"type": "tool_execution_end"},
        {"type": "turn_end", "toolResults": []},
    ]
    events = run(user(), assistant(text("Hello")))
    with_them = assembled("pi-agent", [events[0], *inner, *events[1:]])
    assert with_them.records[-1]["hash"] == assembled("pi-agent", events).records[-1]["hash"]
    assert not with_them.refused


def test_results_and_what_the_user_says_meanwhile_are_one_request_in_emitted_order():
    calls = assistant(call("a"), call("b"), stop="toolUse")
    messages = [
        user(),
        calls,
        result("b"),
        result("a", at=START + 90),
        user("And?", START + 95),
        assistant(text("So.")),
    ]
    got = assembled("pi-agent", run(*messages))
    (request,) = got.messages("request")
    assert [part.get("tool_call_id") or part["content"] for part in request["parts"]] == ["b", "a", "And?"]
    assert request["timestamp"].endswith(":02.095Z")
    assert [m["finish_reason"] for m in got.messages("response")] == ["tool_call", "stop"]


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (result(), "success"),
        (result(words="boom", error=True), "error"),
        (result(words='Validation failed for tool "get":\n  - x', error=True), "validation_error"),
        (result(words='Validation failed for tool "get":\n  - x'), "success"),
    ],
)
def test_status_of_a_result(found, status):
    got = assembled("pi-agent", run(user(), assistant(call(), stop="toolUse"), found))
    assert got.parts("request")[0]["status"] == status


@pytest.mark.parametrize(("details", "metadata"), [({"n": 1}, {"n": 1}), ({}, None), (None, None), ([0], [0])])
def test_details_are_the_metadata_of_a_result(details, metadata):
    got = assembled("pi-agent", run(user(), assistant(call(), stop="toolUse"), result(details=details)))
    assert got.parts("request")[0].get("metadata") == metadata
    assert got.export("pi-agent")[2]["details"] == details


def test_content_is_a_text_or_a_list_of_texts_and_images():
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    picture = {"kind": "binary", "data": "aGk=", "media_type": "image/png", "identifier": "c22b5f"}
    one = {"role": "user", "content": [image], "timestamp": START}
    two = {"role": "user", "content": [text("a"), image], "timestamp": START}
    got = assembled("pi-agent", run(one, two, {"role": "user", "content": "bare", "timestamp": START}, assistant()))
    assert [part["content"] for part in got.user_turns[0]["parts"]] == [[picture], ["a", picture], "bare"]
    assert got.export("pi-agent")[:3] == [one, two, {"role": "user", "content": "bare", "timestamp": START}]


def test_signatures_are_kept_for_their_provider():
    content = [
        {"type": "thinking", "thinking": "Hm", "thinkingSignature": "c2ln"},
        {"type": "thinking", "thinking": "", "thinkingSignature": '{"id":"rs_1","type":"reasoning"}'},
        {"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "eHg=", "redacted": True},
        {"type": "text", "text": "A", "textSignature": "msg_1"},
        {"type": "text", "text": "B", "textSignature": '{"v":1,"id":"msg_2","phase":"final"}'},
        {"type": "text", "text": "", "textSignature": "c2ln"},
        {**call(), "thoughtSignature": "dGhvdWdodA=="},
    ]
    got = assembled("pi-agent", run(user(), assistant(*content, stop="toolUse")))
    thoughts, texts, calls = ([p for p in got.parts("response") if p["part_kind"] == kind] for kind in KINDS)
    assert [t.get("thinking_id") for t in thoughts] == [None, "rs_1", "redacted_thinking"]
    assert "content" not in thoughts[2]
    assert [t["provider_name"] for t in thoughts] == ["anthropic"] * 3
    assert [t["id"] for t in texts] == ["msg_1", "msg_2", "c2ln"]
    assert calls[0]["meta:thought_signature"] == "dGhvdWdodA=="
    assert got.export("pi-agent")[1]["content"] == content


KINDS = ("thinking", "text", "tool-call")


def test_an_empty_signature_is_none():
    got = assembled("pi-agent", run(assistant({"type": "thinking", "thinking": "Hm", "thinkingSignature": ""})))
    assert "signature" not in got.parts("response")[0]


@pytest.mark.parametrize(("stop", "reason"), [("error", "error"), ("aborted", "user_cancelled")])
def test_a_cut_off_response_interrupts_the_turn_and_complete_cycles_stay(stop, reason):
    messages = [
        user(),
        assistant(call(), stop="toolUse"),
        result(),
        assistant(text("half"), stop=stop, errorMessage="no"),
    ]
    got = assembled("pi-agent", run(*messages))
    (turn,) = got.agent_turns
    assert turn["completion_status"] == "interrupted"
    assert turn["interruption"]["reason"] == reason
    assert turn["interruption"]["detail"] == "no"
    assert [m["message_type"] for m in turn["messages"]] == ["response", "request"]
    assert turn["total_usage"]["output_tokens"] == 10  # the interrupted response was paid for, too
    assert not check(got.document)


def test_a_run_that_is_retried_is_one_turn():
    failed, answer = (
        assistant(text("half"), stop="error", errorMessage="overloaded"),
        assistant(text("whole"), at=START + 70),
    )
    again = [{"type": "agent_start"}, *heard(answer), {"type": "agent_end", "messages": [answer]}]
    got = assembled("pi-agent", [*run(user(), failed, willRetry=True), *again])
    (turn,) = got.agent_turns
    assert turn["completion_status"] == "complete"
    assert [part["content"] for part in got.parts("response")] == ["whole"]
    assert got.messages("system")[0]["event_data"] == {"message": "overloaded", "retryable": True}
    assert turn["total_usage"]["output_tokens"] == 10


def test_a_retry_that_never_came_is_an_error():
    got = assembled("pi-agent", run(user(), assistant(text("half"), stop="error"), willRetry=True))
    assert got.agent_turns[0]["interruption"]["reason"] == "error"


def test_one_stream_holds_a_turn_for_each_run():
    later = START + 60_000
    second = run(user("And now?", later), assistant(text("Now this."), at=later + 5))
    got = assembled("pi-agent", run(user(), assistant(text("Hello"))), second, ts=0)
    assert [turn["turn_type"] for turn in got.turns] == ["user", "agent", "user", "agent"]
    assert len({record["turn_id"] for record in got.records}) == 4
    assert [m["content"][0]["text"] for m in got.export("pi-agent")] == ["Hi", "Hello", "And now?", "Now this."]
    assert not check(got.document)


def test_a_run_that_broke_off_before_the_next_one_is_interrupted():
    broken = [{"type": "agent_start"}, *heard(user(), assistant(call(), stop="toolUse"))]
    got = assembled("pi-agent", [*broken, *run(user("Again"), assistant(text("Yes")))])
    assert [turn["completion_status"] for turn in got.agent_turns] == ["interrupted", "complete"]


def test_a_stream_without_agent_end_keeps_complete_cycles():
    messages = [user(), assistant(call(), stop="toolUse"), result(), assistant(call("c2"), stop="toolUse")]
    got = assembled("pi-agent", [{"type": "agent_start"}, *heard(*messages)])
    assert got.agent_turns[0]["interruption"]["reason"] == "network_failure"
    assert [part["tool_call_id"] for part in got.parts("response")] == ["c1"]


def test_a_run_that_began_and_said_nothing_took_a_turn():
    got = assembled("pi-agent", [*run(user(), assistant(text("Hello"))), {"type": "agent_start"}])
    assert [turn["completion_status"] for turn in got.agent_turns] == ["complete", "interrupted"]


def test_agent_end_is_the_authority():
    heard_first, final = assistant(text("draft")), assistant(text("final"))
    events = [{"type": "agent_start"}, *heard(user(), heard_first), {"type": "agent_end", "messages": [user(), final]}]
    assert [p["content"] for p in assembled("pi-agent", events).parts("response")] == ["final"]


def test_the_order_of_agent_end_wins():
    messages = [
        user(),
        assistant(call("a"), call("b"), stop="toolUse"),
        result("b"),
        result("a"),
        assistant(at=START + 90),
    ]
    final = [*messages[:2], messages[3], messages[2], messages[4]]
    got = assembled("pi-agent", [{"type": "agent_start"}, *heard(*messages), {"type": "agent_end", "messages": final}])
    assert [part["tool_call_id"] for part in got.parts("request")] == ["a", "b"]


def test_what_agent_end_leaves_out_stays():
    failure = assistant(text(""), stop="error", errorMessage="fetch failed")
    events = [{"type": "agent_start"}, *heard(user()), {"type": "agent_end", "messages": [failure]}]
    got = assembled("pi-agent", events)
    assert got.user_turns[0]["parts"][0]["content"] == "Hi"
    assert got.agent_turns[0]["completion_status"] == "interrupted"


def test_an_answer_stays_where_a_hook_throws_in_the_same_millisecond():
    failure = assistant(text(""), stop="error", errorMessage="the hook fails")
    answer = assistant(text("Let me look."), call(), stop="toolUse")
    events = [{"type": "agent_start"}, *heard(user(), answer), {"type": "agent_end", "messages": [failure]}]
    (turn,) = assembled("pi-agent", events).agent_turns
    shown, silent = turn["meta:partial"]["messages"]
    assert [part["part_kind"] for part in shown["parts"]] == ["text", "tool-call"]
    assert (silent["parts"], silent["model_name"], silent["usage"]) == ([], "claude", shown["usage"]), "billed, too"
    assert turn["interruption"]["detail"] == "the hook fails"


def test_agent_end_alone_is_enough():
    got = assembled("pi-agent", [{"type": "agent_end", "messages": [user(), assistant(text("Hello"))]}])
    assert [m["role"] for m in got.export("pi-agent")] == ["user", "assistant"]
    assert got.agent_turns[0]["completion_status"] == "complete"


def test_a_whole_event_that_comes_again_bills_nothing():
    """As where a program publishes what the agent and its session tell."""
    events = run(
        user(), assistant(call(), stop="toolUse", usage=USAGE), result(), assistant(usage=USAGE, at=START + 90)
    )
    twice = [event for event in events for _ in range(2 if event["type"] in ("message_end", "agent_end") else 1)]
    got = assembled("pi-agent", twice)
    assert [turn["total_usage"]["output_tokens"] for turn in got.agent_turns] == [10]
    assert got.agent_turns == assembled("pi-agent", [*twice, events[-1]]).agent_turns


def test_roles_of_an_application_are_system_messages_and_come_back():
    note = {"role": "artifact", "html": "<b>x</b>", "timestamp": START + 1}
    got = assembled("pi-agent", run(user(), note, assistant(text("Nice"))))
    (system,) = got.messages("system")
    assert system["event_type"] == "data-app-artifact"
    assert system["event_data"] == {"html": "<b>x</b>", "timestamp": START + 1}
    assert got.export("pi-agent")[1] == note


def test_system_messages_grant_and_revoke_tools_and_their_text_is_dropped():
    prompt = {
        "role": "system",
        "content": "Be nice",
        "toolsAdded": [{"name": "a"}],
        "toolsRemoved": ["b"],
        "timestamp": 0,
    }
    got = assembled("pi-agent", run(prompt, user(), assistant(text("Yes"))))
    assert [(m["event_type"], m["event_data"]) for m in got.messages("system")] == [
        ("tool.grant", {"tools": [{"name": "a"}]}),
        ("tool.revoke", {"tools": ["b"]}),
    ]
    assert "Be nice" not in str(got.document)


def test_unknown_events_are_preserved_in_their_place():
    events = run(user(), assistant(call(), stop="toolUse"), result(), assistant(text("Done")))
    events.insert(7, {"type": "compaction", "tokens": 5})
    got = assembled("pi-agent", events)
    assert [m["message_type"] for m in got.agent_turns[0]["messages"]] == ["response", "request", "system", "response"]
    assert got.messages("system")[0]["event_type"] == "data-app-compaction"
    assert got.messages("system")[0]["event_data"] == {"tokens": 5}
    assert "compaction" not in [m["role"] for m in got.export("pi-agent")]


def test_duplicate_ids_in_one_response_are_two_calls():
    calls = assistant(call("same", "f", {"n": 1}), call("same", "g", {"n": 2}), stop="toolUse")
    got = assembled("pi-agent", run(user(), calls, result("same", "one", name="f"), result("same", "two", name="g")))
    assert [part["args"] for part in got.parts("response")] == [{"n": 1}, {"n": 2}]
    assert [part["content"] for part in got.parts("request")] == ["one", "two"]


def test_ids_used_again_in_a_later_response_are_other_calls():
    messages = [user(), assistant(call(arguments={"n": 1}), stop="toolUse"), result(words="one")]
    messages += [assistant(call(arguments={"n": 2}), stop="toolUse", at=START + 90), result(words="two", at=START + 95)]
    got = assembled("pi-agent", run(*messages, assistant(text("Done"), at=START + 99)))
    assert [[p["content"] for p in request["parts"]] for request in got.messages("request")] == [["one"], ["two"]]


def test_a_result_without_its_call_is_refused():
    got = assembled("pi-agent", run(user(), assistant(call(), stop="toolUse"), result(), result("ghost"), assistant()))
    assert len(got.refused) == 1
    assert "'ghost'" in got.refused[0]
    assert [part["tool_call_id"] for part in got.parts("request")] == ["c1"]
    assert not check(got.document)


def test_a_result_before_any_response_may_answer_an_earlier_run():
    got = assembled("pi-agent", run(result("earlier"), user("go on"), assistant(text("Done"))))
    (request,) = got.messages("request")
    assert [part["part_kind"] for part in request["parts"]] == ["tool-return", "user-prompt"]
    assert not got.user_turns


@pytest.mark.parametrize(
    ("arguments", "args"),
    [([1, 2], [1, 2]), (5, 5), (None, {}), ('{"a":', {"INVALID_JSON": '{"a":'}), ({"a": None}, {"a": None})],
)
def test_arguments_that_are_no_object(arguments, args):
    said = {"type": "toolCall", "id": "c1", "name": "get", "arguments": arguments}
    got = assembled("pi-agent", run(user(), assistant(said, stop="toolUse"), result()))
    assert got.parts("response")[0]["args"] == args
    assert got.export("pi-agent")[1]["content"][0]["arguments"] == ({} if arguments is None else arguments)


def test_holes_and_unknown_blocks_in_content():
    citation = {"type": "citation", "url": "https://example.com"}
    got = assembled("pi-agent", run(user(), assistant(None, text("a"), None, citation, text("b"))))
    assert [part["part_kind"] for part in got.parts("response")] == ["text", "custom:pi", "text"]
    assert got.export("pi-agent")[1]["content"] == [text("a"), citation, text("b")]


def test_a_model_that_says_nothing_has_said_so():
    got = assembled("pi-agent", run(user(), assistant()))
    assert got.messages("response")[0]["parts"] == []
    assert [m["role"] for m in got.export("pi-agent")] == ["user", "assistant"]


def test_hostile_text_survives():
    words = "NUL \x00, half \ud83d, end \u2028"
    got = assembled("pi-agent", run(user(words), assistant(text(words))))
    assert got.parts("response")[0]["content"] == "NUL \x00, half \ufffd, end \u2028"
    assert got.records[0]["hash"]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_end"},
        {"type": "message_end", "message": "hello"},
        {"type": "message_end", "message": {"content": []}},
        {"type": "message_start", "message": None},
        {"type": "agent_end", "messages": {"0": user()}},
        {"type": 7},
        {},
    ],
)
def test_malformed_events_are_refused_and_the_run_goes_on(event):
    events = run(user(), assistant(text("Hello")))
    got = assembled("pi-agent", [*events[:3], event, *events[3:]])
    assert len(got.refused) == 1
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert [part["content"] for part in got.parts("response")] == ["Hello"]


def test_receipt_times_are_the_turns_times_of_a_live_run():
    got = assembled("pi-agent", run(user(), assistant(text("Hello"))), step=100)
    assert got.agent_turns[0]["started_at"] == "2026-01-20T16:59:02.000Z"
    assert got.agent_turns[0]["completed_at"] == "2026-01-20T16:59:02.500Z"


def test_an_old_run_that_is_read_again_has_the_times_of_its_messages():
    said = assistant(text("Hello"), durationMs=20)
    got = assembled("pi-agent", run(user(), said), ts=START + 86_400_000)
    assert got.agent_turns[0]["started_at"] == "2026-01-20T16:59:02.000Z"
    assert got.agent_turns[0]["completed_at"] == "2026-01-20T16:59:02.070Z"
    assert got.records[-1]["timings"] == [{"ttft_ms": None, "duration_ms": None}]


@pytest.mark.parametrize("timestamp", [None, "soon", -5, float("nan"), 10**30, True, [1]])
def test_a_message_without_a_usable_time_takes_that_of_its_receipt(timestamp):
    got = assembled("pi-agent", run(user(at=timestamp), assistant(text("Hello"), at=timestamp)))
    assert got.messages("response")[0]["timestamp"].startswith("2026-01-20T16:59:02")
    assert not [finding for finding in check(got.document) if finding.severity == "error"]


def test_the_model_that_answered_wins_over_the_one_that_was_asked():
    got = assembled("pi-agent", run(user(), assistant(text("Hello"), responseModel="claude-2", responseId="r1")))
    response = got.messages("response")[0]
    assert (response["model_name"], response["provider_response_id"]) == ("claude-2", "r1")
    exported = got.export("pi-agent")[1]
    assert (exported["model"], exported["responseModel"]) == ("claude", "claude-2")


def test_a_deferred_call_stays_open_in_a_complete_turn():
    got = assembled("pi-agent", run(user(), assistant(call(), stop="deferred")))
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert got.messages("response")[0]["finish_reason"] == "tool_call"
    assert got.export("pi-agent")[1]["stopReason"] == "deferred"


def test_the_time_that_the_model_took_is_telemetry():
    builder = Builder(Context("t", "r", "a", "pi-agent"), START)
    DIALECTS["pi-agent"].begin(builder)
    message = assistant(text("Hello"), durationMs=42)
    DIALECTS["pi-agent"].handlers["message_end"](builder, {"type": "message_end", "message": message})
    assert builder.telemetry == [(START, "data-sys-latency", {"model_latency_ms": 42})]


def test_a_run_that_goes_on_with_its_next_turn_is_not_over():
    first = envelope("pi-agent", run(assistant(text("Hello"))), 0)
    second = envelope("pi-agent", [{"type": "agent_start"}], len(first["events"]))
    open_run = Run(first, DIALECTS["pi-agent"], StoredRecord(b"", 0, START))
    open_run.feed(first, StoredRecord(b"", 0, START))
    assert open_run.ended_at == START
    open_run.feed(second, StoredRecord(b"", 1, START + 9_000))
    assert open_run.ended_at is None


def test_usage_tells_caches_of_an_hour_and_costs():
    spent = {"input": 1_000, "output": 500, "cacheRead": 50_000, "cacheWrite": 100_000, "cacheWrite1h": 80_000}
    cost = {"input": 0.003, "output": 0.0075, "cacheRead": 0.015, "cacheWrite": 0.555, "total": 0.5805}
    assert tokens.counts(usage({"usage": {**spent, "totalTokens": 151_500, "cost": cost}})) == {
        "input_tokens": 151_000,
        "output_tokens": 500,
        "cache_read_tokens": 50_000,
        "cache_write_tokens": 100_000,
        "cache_write_1h_tokens": 80_000,
        "total_tokens": 151_500,
        "cost_nano_usd": 580_500_000,
    }
