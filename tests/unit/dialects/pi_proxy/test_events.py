"""pi-proxy events -> turns: one SSE body is one response, as pi's own client reads it."""

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.support.assembled import START, assembled
from topics.thread_rules import check

USAGE = {"input": 20, "output": 10, "cacheRead": 3, "cacheWrite": 0, "totalTokens": 33, "cost": {"total": 0.5}}
BODY = {
    "model": {"id": "claude", "provider": "anthropic", "api": "anthropic-messages"},
    "context": {"systemPrompt": "s", "messages": [{"role": "user", "content": "Hi", "timestamp": START - 5}]},
}
DONE = {"type": "done", "reason": "stop", "usage": USAGE}


def text(index=0, *deltas, **end):
    events = [{"type": "text_delta", "contentIndex": index, "delta": delta} for delta in deltas or ("Hello",)]
    return [
        {"type": "text_start", "contentIndex": index}, *events, {"type": "text_end", "contentIndex": index, **end}
    ]  # fmt: skip


def tool(index=0, *deltas, call_id="c1", name="get", **end):
    events = [{"type": "toolcall_delta", "contentIndex": index, "delta": delta} for delta in deltas]
    start = {"type": "toolcall_start", "contentIndex": index, "id": call_id, "toolName": name}
    return [start, *events, {"type": "toolcall_end", "contentIndex": index, **end}]


def proxied(*events, body=BODY, **rest):
    return assembled("pi-proxy", [{"type": "start"}, *events], run={"request": body}, **rest)


def contents(got):
    return [part.get("content", part.get("args")) for part in got.parts("response")]


def test_a_body_is_a_response_and_the_request_says_who_asked_whom():
    got = proxied(*text(0, "Hel", "lo"), DONE)
    assert got.user_turns[0]["parts"][0]["content"] == "Hi"
    (response,) = got.messages("response")
    assert response["parts"] == [{"part_kind": "text", "content": "Hello"}]
    assert (response["model_name"], response["provider_name"]) == ("claude", "anthropic")
    assert response["finish_reason"] == "stop"
    assert response["usage"]["input_tokens"] == 23
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert not got.refused
    assert not check(got.document)


def test_thinking_and_its_signature():
    thought = [
        {"type": "thinking_start", "contentIndex": 0},
        {"type": "thinking_delta", "contentIndex": 0, "delta": "Hm"},
    ]
    end = {"type": "thinking_end", "contentIndex": 0, "contentSignature": "c2ln"}
    got = proxied(*thought, end, *text(1, contentSignature="msg_1"), DONE)
    assert got.parts("response") == [
        {"part_kind": "thinking", "content": "Hm", "signature": "c2ln", "provider_name": "anthropic"},
        {"part_kind": "text", "content": "Hello", "id": "msg_1"},
    ]


def test_arguments_are_the_json_of_their_deltas():
    got = proxied(*tool(0, '{"a":', "[1]}"), *tool(1, call_id="c2"), {**DONE, "reason": "toolUse"})
    assert contents(got) == [{"a": [1]}, {}]
    assert got.messages("response")[0]["finish_reason"] == "tool_call"


def test_the_call_of_toolcall_end_wins():
    whole = {"type": "toolCall", "id": "c1", "name": "get", "arguments": {"b": 2}, "thoughtSignature": "c2ln"}
    got = proxied(*tool(0, '{"a": 1}', toolCall=whole), {**DONE, "reason": "toolUse"})
    (call,) = got.parts("response")
    assert (call["args"], call["meta:thought_signature"]) == ({"b": 2}, "c2ln")


def test_blocks_are_sorted_by_index_and_holes_are_nothing():
    assert contents(proxied(*text(3, "b"), *text(0, "a"), DONE)) == ["a", "b"]


def test_a_block_that_starts_again_is_replaced():
    assert contents(proxied(*text(0, "first"), *text(0, "second"), DONE)) == ["second"]


def test_text_after_its_end_is_appended_as_the_client_does():
    late = {"type": "text_delta", "contentIndex": 0, "delta": " again"}
    assert contents(proxied(*text(), late, DONE)) == ["Hello again"]


def test_arguments_after_their_end_change_nothing():
    late = {"type": "toolcall_delta", "contentIndex": 0, "delta": "x"}
    assert contents(proxied(*tool(0, "{}"), late, {**DONE, "reason": "toolUse"})) == [{}]


def test_a_missing_or_null_delta_is_a_word_to_the_client():
    deltas = [{"type": "text_delta", "contentIndex": 0}, {"type": "text_delta", "contentIndex": 0, "delta": None}]
    start, end = {"type": "text_start", "contentIndex": 0}, {"type": "text_end", "contentIndex": 0}
    assert contents(proxied(start, *deltas, end, DONE)) == ["undefinednull"]


def test_surrogate_pairs_split_over_deltas_are_joined():
    got = proxied(
        *text(0, "\ud83d", "\ude80 \x00"), *tool(1, '{"m":"\ud83d', '\ude80"}'), {**DONE, "reason": "toolUse"}
    )
    assert contents(got) == ["🚀 \x00", {"m": "🚀"}]


def test_a_block_without_end_is_dropped():
    opened = [{"type": "text_start", "contentIndex": 1}, {"type": "text_delta", "contentIndex": 1, "delta": "no"}]
    assert contents(proxied(*text(), *opened, DONE)) == ["Hello"]


def test_an_empty_message_is_a_message():
    got = proxied(DONE)
    assert got.messages("response")[0]["parts"] == []
    assert got.agent_turns[0]["completion_status"] == "complete"


def test_the_first_terminal_event_wins():
    got = proxied(*text(), DONE, *text(1, "late"), {"type": "error", "reason": "error", "usage": USAGE})
    assert contents(got) == ["Hello"]
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert not got.refused


def test_calls_are_for_the_client_to_run_and_stay():
    got = proxied(*tool(0, "{}"), {**DONE, "reason": "toolUse"})
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert len(got.parts("response")) == 1


def test_a_publisher_that_saw_an_abort_knows_better():
    got = proxied(*tool(0, "{}"), {**DONE, "reason": "toolUse"}, end="aborted")
    assert got.agent_turns[0]["completion_status"] == "interrupted"


@pytest.mark.parametrize(
    ("reason", "interruption"), [("error", "error"), ("aborted", "user_cancelled"), (None, "error")]
)
def test_an_error_drops_the_response_and_its_tokens_were_spent(reason, interruption):
    got = proxied(*text(), {"type": "error", "reason": reason, "errorMessage": "overloaded", "usage": USAGE})
    (turn,) = got.agent_turns
    assert turn["messages"] == []
    assert turn["interruption"]["reason"] == interruption
    assert turn["interruption"]["detail"] == "overloaded"
    assert turn["total_usage"]["output_tokens"] == 10
    assert got.user_turns


def test_a_stream_that_ends_without_done_is_interrupted():
    got = proxied(*text())
    assert got.agent_turns[0]["interruption"]["reason"] == "network_failure"
    assert not got.messages("response")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "text_delta", "contentIndex": 5, "delta": "?"},
        {"type": "thinking_delta", "contentIndex": 0, "delta": "?"},
        {"type": "toolcall_delta", "contentIndex": 0, "delta": "?"},
        {"type": "text_end", "contentIndex": 5},
        {"type": "thinking_end", "contentIndex": 0},
        {"type": "text_delta", "contentIndex": 0, "delta": 7},
        {"type": "text_start"},
        {"type": "text_start", "contentIndex": True},
        {"type": "toolcall_start", "contentIndex": 1, "id": 7, "toolName": "get"},
        {"type": "toolcall_start", "contentIndex": 1, "id": "c1"},
        {"type": "toolcall_start", "contentIndex": 1, "id": "c1", "toolName": ""},
        {"type": "done"},
        {"type": "done", "reason": "error"},
    ],
)
def test_what_the_client_throws_at_ends_the_message(event):
    got = proxied(*text(), event, DONE)
    assert len(got.refused) == 1
    assert not got.messages("response")
    assert got.agent_turns[0]["interruption"]["reason"] == "error"


@pytest.mark.parametrize("arguments", ['{"a":', "undefined", '{"a":1}}', "'x'"])
def test_arguments_that_do_not_parse_are_kept_as_they_came(arguments):
    got = proxied(*text(), *tool(1, arguments), {**DONE, "reason": "toolUse"})
    assert contents(got) == ["Hello", {"INVALID_JSON": arguments}]
    assert got.refused == []


def test_a_call_without_an_id_is_kept_with_the_answer():
    started, *rest = tool(1, "{}")
    del started["id"]
    got = proxied(*text(), started, *rest, {**DONE, "reason": "toolUse"})
    assert contents(got) == ["Hello", {}]
    assert got.refused == []


@pytest.mark.parametrize("arguments", [("[1]", [1]), ("5", 5), ("null", {}), ('"text"', {"INVALID_JSON": "text"})])
def test_arguments_that_are_no_object(arguments):
    written, args = arguments
    assert contents(proxied(*tool(0, written), {**DONE, "reason": "toolUse"})) == [args]


@pytest.mark.parametrize("index", [-1, "-1", "x", "01", ""])
def test_a_block_beside_the_elements_of_the_clients_array_is_not_in_its_message(index):
    got = proxied(*text(index, "lost"), *text(0, "kept"), DONE)
    assert contents(got) == ["kept"]
    assert not got.refused
    assert got.agent_turns[0]["completion_status"] == "complete"


def test_an_index_may_be_a_text():
    assert contents(proxied(*text("1", "second"), *text(0, "first"), DONE)) == ["first", "second"]


def test_a_reason_that_pi_does_not_know_is_no_error():
    got = proxied(*text(), {**DONE, "reason": "tired"})
    assert contents(got) == ["Hello"]
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert not check(got.document)


def test_a_lone_surrogate_and_one_that_meets_its_half_only_by_chance():
    got = proxied(*text(0, "a\ud83d"), *text(1, "\ude80b"), DONE)
    assert contents(got) == ["a\ufffd", "\ufffdb"]


def test_the_end_of_an_unknown_call_is_ignored():
    got = proxied(
        {"type": "toolcall_end", "contentIndex": 3}, *text(), {"type": "toolcall_end", "contentIndex": 0}, DONE
    )
    assert contents(got) == ["Hello"]
    assert not got.refused


def test_unknown_events_are_ignored():
    got = proxied(*text(), {"type": "usage_update", "usage": USAGE}, DONE)
    assert contents(got) == ["Hello"]
    assert not got.refused
    assert not got.messages("system")


def tail(*messages):
    return {**BODY, "context": {"messages": [{"role": "assistant", "content": []}, *messages]}}


def test_tool_results_in_the_request_go_on_with_the_turn():
    result = {"role": "toolResult", "toolCallId": "c0", "toolName": "get", "content": [], "isError": False}
    steering = {"role": "user", "content": "Quick", "timestamp": START}
    got = proxied(*text(), DONE, body=tail(result, steering))
    assert not got.user_turns
    (request,) = got.messages("request")
    assert [part["part_kind"] for part in request["parts"]] == ["tool-return", "user-prompt"]


def test_only_what_follows_the_last_answer_is_new():
    old = {"role": "user", "content": "old", "timestamp": 1}
    body = tail({"role": "user", "content": "new", "timestamp": START})
    body["context"]["messages"].insert(0, old)
    got = proxied(*text(), DONE, body=body)
    assert [part["content"] for part in got.user_turns[0]["parts"]] == ["new"]


@pytest.mark.parametrize("body", [None, [], {}, {"model": "claude"}, {"context": {"messages": 5}}, {"context": [None]}])
def test_a_body_of_another_shape_says_nothing(body):
    got = proxied(*text(), DONE, body=body)
    assert contents(got) == ["Hello"]
    assert not got.user_turns


def test_several_bodies_of_one_run_are_one_turn_until_the_user_asks_again():
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "get", "content": [], "isError": False}
    question = {"role": "user", "content": "And?", "timestamp": START + 500}
    bodies = [BODY, tail(result), tail(question)]
    streams = [[*tool(0, "{}"), {**DONE, "reason": "toolUse"}], [*text(0, "a"), DONE], [*text(0, "b"), DONE]]
    envelopes, seq = [], 0
    for body, events in zip(bodies, streams, strict=True):
        identity = {"v": 1, "thread_id": "0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "run_id": "r", "agent_id": "a"}
        envelope = {**identity, "dialect": "pi-proxy", "seq": seq, "ts": START + 200 * seq, "events": events}
        envelopes.append({**envelope, "run": {"request": body}})
        seq += len(events)
    records, refused = assemble(DIALECTS["pi-proxy"], envelopes)
    turns = [record["turn"] for record in records if record["turn"]["turn_type"] == "agent"]
    assert not refused
    assert [[m["message_type"] for m in turn["messages"]] for turn in turns] == [
        ["response", "request", "response"],
        ["response"],
    ]
    assert [turn["completion_status"] for turn in turns] == ["complete", "complete"]
