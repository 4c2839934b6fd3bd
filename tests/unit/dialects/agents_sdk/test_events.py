"""agents-sdk events -> turns: one test for each kind of event, and for each ambiguity of the contract."""

import pytest

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Context
from pipeline.dialects import DIALECTS
from tests.support.assembled import START, assembled
from tests.support.bills import bill
from topics.thread_rules import check

META = {"runId": "run_1", "requestId": "req_1", "endpoint": "/api", "model": "gpt", "createdAt": "2026-01-20T16:59:01Z"}


def event(name, **data):
    return {"event": name, "data": data}


def start(message_id="m1", **data):
    return event("message.start", messageId=message_id, role="assistant", **data)


def say(delta, message_id="m1"):
    return event("message.delta", messageId=message_id, delta=delta)


def call(call_id="c1", name="get", message_id="m1", **data):
    return event("tool.call", toolCallId=call_id, toolName=name, messageId=message_id, **data)


def result(call_id="c1", message_id="m1", **data):
    return event("tool.result", toolCallId=call_id, messageId=message_id, **data)


def end(message_id="m1"):
    return event("message.end", messageId=message_id)


DONE = event("done", runId="run_1", finishReason="stop")


def run(*events, **rest):
    return assembled("agents-sdk", [event("meta", **META), *events], **rest)


def steps(got):
    """Per message of the turn: its texts, calls (name, args) and results."""
    kinds = {"text": lambda p: p["content"], "tool-call": lambda p: (p["tool_name"], p["args"])}
    return [
        [kinds.get(part["part_kind"], lambda p: {p["tool_call_id"]: p["content"]})(part) for part in message["parts"]]
        for turn in got.agent_turns
        for message in turn["messages"]
        if message["message_type"] != "system"
    ]


def test_text_is_one_part_of_one_response():
    got = run(start(), say("Hel"), say("lo"), end(), DONE)
    assert got.parts("response") == [{"part_kind": "text", "content": "Hello"}]
    assert got.messages("response")[0]["model_name"] == "gpt"
    assert got.messages("response")[0]["finish_reason"] == "stop"
    assert got.agent_turns[0]["started_at"] == "2026-01-20T16:59:01.000Z"
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert not got.refused
    assert not check(got.document)


def test_a_message_has_its_own_time():
    got = run(start(createdAt="2026-01-20T16:59:05Z"), say("Hi"), DONE)
    assert got.messages("response")[0]["timestamp"] == "2026-01-20T16:59:05.000Z"
    assert got.agent_turns[0]["completed_at"] >= "2026-01-20T16:59:05.000Z"


def test_content_after_all_results_is_the_next_response():
    got = run(start(), say("One."), call(input={"i": 1}), result(output=1), say("Two."), call("c2", input={}),
              result("c2", output=2), say("End."), end(), DONE)  # fmt: skip
    assert steps(got) == [["One.", ("get", {"i": 1})], [{"c1": 1}], ["Two.", ("get", {})], [{"c2": 2}], ["End."]]
    assert [m["finish_reason"] for m in got.messages("response")] == ["tool_call", "tool_call", "stop"]
    assert not check(got.document)


def test_while_a_call_is_open_content_stays_in_its_response():
    got = run(call("a", input=1), call("b", input=2), result("a", output=1), call("c", input=3), result("b", output=2),
              result("c", output=3), say("End."), DONE)  # fmt: skip
    assert steps(got) == [[("get", 1), ("get", 2), ("get", 3)], [{"a": 1}, {"b": 2}, {"c": 3}], ["End."]]


def test_text_goes_on_where_it_is_the_last_part():
    events = [
        call("a", input=1),
        call("b", input=2),
        result("a", output=1),
        say("Wait "),
        result("b", output=2),
        say("done"),
    ]
    assert steps(run(*events, DONE))[0] == [("get", 1), ("get", 2), "Wait done"]
    assert steps(run(*events))[0] == [("get", 1), ("get", 2)]  # a text without its end is none


def test_a_run_that_says_nothing():
    assert steps(run(DONE)) == []
    assert run(DONE).agent_turns[0]["completion_status"] == "complete"
    assert run().agent_turns[0]["completion_status"] == "interrupted"


def test_interleaved_messages_are_told_apart_by_their_ids():
    got = run(start("m1"), say("a1 ", "m1"), start("m2"), say("b1 ", "m2"), say("a2", "m1"), say("b2", "m2"), DONE)
    assert steps(got) == [["a1 a2"], ["b1 b2"]]


def test_events_without_message_id_belong_to_the_newest():
    got = run(start("m1"), say("a", "m1"), start("m2"), event("message.delta", delta="b"), DONE)
    assert steps(got) == [["a"], ["b"]]


def test_a_message_that_never_started_is_there_all_the_same():
    assert steps(run(call(input={}), result(output="x"), say("Got it."), DONE)) == [
        [("get", {})],
        [{"c1": "x"}],
        ["Got it."],
    ]


def test_a_missing_message_end_is_made_up_by_done_and_an_empty_message_is_none():
    got = run(start(), say("Hi"), start("m2"), end("m2"), DONE)
    assert steps(got) == [["Hi"]]


def test_a_call_that_comes_again_is_updated():
    assert steps(run(call(input={"n": 1}), call(name="got", input={"n": 2}), DONE)) == [[("got", {"n": 2})]]


def test_input_is_the_authority_over_deltas():
    deltas = [event("tool.delta", toolCallId="c1", delta=delta, messageId="m1") for delta in ('{"n"', ": 1}")]
    assert steps(run(*deltas, call(input={"n": 2}), DONE)) == [[("get", {"n": 2})]]
    assert steps(run(*deltas, call(), DONE)) == [[("get", {"n": 1})]]
    assert steps(run(call(), *deltas, DONE)) == [[("get", {"n": 1})]]
    assert steps(run(call(), deltas[0], DONE)) == [[("get", {"INVALID_JSON": '{"n"'})]]
    assert steps(run(call(), DONE)) == [[("get", {})]]
    assert steps(run(call(input="text"), DONE)) == [[("get", {"INVALID_JSON": "text"})]]
    assert steps(run(*deltas, say("Hi"), DONE)) == [["Hi"]]


def test_a_call_has_the_place_of_its_first_delta():
    delta = event("tool.delta", toolCallId="c1", delta="{}", messageId="m1")
    assert steps(run(say("a"), delta, say("b"), call(input={}), DONE)) == [["a", ("get", {}), "b"]]


@pytest.mark.parametrize(
    ("data", "status", "content"),
    [
        ({"output": {"v": 1}}, "success", {"v": 1}),
        ({"output": None}, "success", None),
        ({}, "success", None),
        ({"errorText": "boom"}, "error", "boom"),
        ({"errorText": "boom", "state": "output-error", "output": 1}, "error", "boom"),
        ({"state": "output-error"}, "error", None),
    ],
)
def test_results(data, status, content):
    (part,) = run(call(input={}), result(**data), DONE).parts("request")
    assert (part["status"], part["content"]) == (status, content)


def test_the_last_of_several_results_wins():
    assert steps(run(call(input={}), result(output=1), result(output=2), DONE))[1] == [{"c1": 2}]


@pytest.mark.parametrize("before", [[], [event("tool.delta", toolCallId="ghost", delta="{}")]])
def test_a_result_without_its_call_is_refused(before):
    got = run(start(), *before, result("ghost", output=1), say("Hi"), DONE)
    assert steps(got) == [["Hi"]]
    assert "ghost" in got.refused[0]


def test_an_unanswered_call_stays_in_a_complete_turn_only():
    assert steps(run(call(input={}), DONE)) == [[("get", {})]]
    assert steps(run(call(input={}), end())) == []


def test_a_cycle_that_was_complete_when_the_stream_broke_stays():
    got = run(say("One."), call(input={}), result(output=1), say("Tw"))
    assert steps(got) == [["One.", ("get", {})], [{"c1": 1}]]
    assert got.agent_turns[0]["interruption"]["reason"] == "network_failure"
    assert not check(got.document)


def test_sources_go_to_the_message_of_their_call():
    source = event("source", sourceId="s1", url="https://a.example", title="A", toolCallId="c1", messageId="m2")
    got = run(
        call(input={}), result(output=1), end(), start("m2"), say("Answer.", "m2"), source, say(" More.", "m2"), DONE
    )
    (system,) = got.messages("system")
    assert system["event_type"] == "source.url"
    assert system["event_data"] == {
        "source_id": "s1", "url": "https://a.example", "title": "A", "tool_call_id": "c1", "message_id": "m1"
    }  # fmt: skip
    assert steps(got)[-1] == ["Answer. More."]


def test_a_source_on_its_own_message_ends_its_text():
    source = event("source", sourceId="s1", url="https://a.example", messageId="m1")
    assert steps(run(say("a"), source, say("b"), DONE)) == [["a", "b"]]


def test_an_error_interrupts_unless_done_follows():
    failure = event("error", message="overloaded", code="529", retryable=True)
    broken = run(start(), say("Hi"), end(), failure)
    assert broken.agent_turns[0]["interruption"]["reason"] == "error"
    assert broken.agent_turns[0]["interruption"]["detail"] == "overloaded"
    assert broken.messages("system")[0]["event_data"] == {"message": "overloaded", "code": "529", "retryable": True}
    assert steps(broken) == [["Hi"]]
    assert run(start(), failure, say("Hi"), DONE).agent_turns[0]["completion_status"] == "complete"
    final = event("error", message="no", retryable=False)
    assert run(start(), final, end="complete").agent_turns[0]["interruption"]["reason"] == "error"


def test_done_with_an_error_interrupts():
    got = run(say("Hi"), event("done", finishReason="error"))
    assert got.agent_turns[0]["interruption"]["reason"] == "error"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        *[("stop", "stop"), ("length", "length"), ("content-filter", "content_filter"), ("tool-calls", "tool_call")],
        *[("?", "error"), (None, "stop"), (7, "stop")],
    ],
)
def test_the_finish_reason_is_that_of_the_last_response(reason, finish):
    got = run(call(input={}), result(output=1), say("Hi"), event("done", finishReason=reason))
    assert [m["finish_reason"] for m in got.messages("response")] == ["tool_call", finish]


def test_stop_after_calls_is_tool_call():
    assert run(say("a"), call(input={}), DONE).messages("response")[0]["finish_reason"] == "tool_call"
    assert run(call(input={}), say("a"), DONE).messages("response")[0]["finish_reason"] == "stop"


def test_usage_is_the_turns_and_that_of_its_only_response():
    done = event("done", finishReason="stop", usage={"inputTokens": 12, "outputTokens": 3})
    one = run(say("Hi"), done)
    assert one.messages("response")[0]["usage"] == {"input_tokens": 12, "output_tokens": 3}
    two = run(call(input={}), result(output=1), say("Hi"), done)
    assert [m.get("usage") for m in two.messages("response")] == [None, None]
    assert two.agent_turns[0]["total_usage"] == {"input_tokens": 12, "output_tokens": 3}


def spent(read, written, cached=0, **more):
    """Usage as openai-agents 0.24 serializes it: details of the run in lists, those of its calls as objects."""
    return {"input_tokens": read, "output_tokens": written, "input_tokens_details": {"cached_tokens": cached}, **more}


def test_each_call_of_a_run_has_its_tokens():
    run_usage = spent(60, 18, requests=2) | {"input_tokens_details": [{"cached_tokens": 15}]}
    entries = [spent(20, 10), spent(40, 8, 15)]
    done = event("done", finishReason="stop", usage=run_usage | {"request_usage_entries": entries})
    got = run(call(input={}), result(output=1), say("Hi"), done)
    rows = bill(got)
    assert [(row["input_tokens"], row["output_tokens"], row["cache_read_tokens"]) for row in rows] == [
        (20, 10, 0),
        (40, 8, 15),
    ]
    # Two calls in a single response: each is a row, and priced alone.
    rows = bill(run(say("Hi"), done))
    assert [(row["input_tokens"], row["requests"]) for row in rows] == [(20, 1), (40, 0)]
    (row,) = bill(run(say("Hi"), event("done", finishReason="stop", usage=run_usage)))
    assert (row["input_tokens"], row["cache_read_tokens"], row["summed"]) == (60, 15, True)


def test_nothing_is_said_after_done():
    got = run(say("Hi"), DONE, say(" there"), event("error", message="late"), event("done", finishReason="error"))
    assert steps(got) == [["Hi"]]
    assert got.agent_turns[0]["completion_status"] == "complete"


def test_what_is_not_said_to_anybody_is_telemetry():
    builder = Builder(Context("t", "r", "a", "agents-sdk"), START)
    dialect = DIALECTS["agents-sdk"]
    dialect.begin(builder)
    usage = {"inputTokens": 1}
    for item in (
        event("meta", **META),
        event("status", state="thinking"),
        event("done", finishReason="stop", usage=usage),
    ):
        dialect.handlers[item["event"]](builder, item)
    assert [(kind, data) for _, kind, data in builder.telemetry] == [
        ("data-sys-run", {"request_id": "req_1", "run_id": "run_1", "endpoint": "/api"}),
        ("data-sys-status", {"state": "thinking"}),
        ("data-sys-usage", usage),
    ]


def test_unknown_events_are_preserved():
    got = run(say("Hi"), event("reasoning.delta", delta="hmm"), {"event": "heartbeat", "data": None}, DONE)
    assert [(m["event_type"], m["event_data"]) for m in got.messages("system")] == [
        ("reasoning.delta", {"delta": "hmm"}),
        ("heartbeat", None),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"event": "message.delta"},
        {"event": "message.delta", "data": "Hi"},
        {"event": ["message.delta"], "data": {}},
        event("message.delta", messageId="m1"),
        event("message.delta", messageId="m1", delta=7),
        event("tool.delta", toolCallId="c1", delta=None),
        event("tool.call", toolCallId="c1"),
        event("tool.call", toolName="get"),
        event("tool.call", toolCallId=1, toolName="get"),
        event("tool.call", toolCallId="c1", toolName=1),
        event("tool.result", toolCallId=["c1"]),
        event("source", toolCallId=["c1"]),
        event("message.end", messageId="ghost"),
    ],
)
def test_malformed_events_are_refused_and_the_run_goes_on(bad):
    got = run(start(), say("Hi"), bad, say("!"), DONE)
    assert len(got.refused) == 1
    assert steps(got) == [["Hi!"]]


def test_hostile_text_survives():
    got = run(say("\ud83d"), say("\ude80 \x00 \ud83d"), DONE)
    assert steps(got) == [["🚀 \x00 \ufffd"]]


OLD = {"role": "user", "content": "old"}


def user_parts(body):
    turns = run(say("Hi"), DONE, run={"request": body}).user_turns
    return [part["content"] for part in turns[0]["parts"]] if turns else None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"message": "Hi"}, ["Hi"]),
        ({"input": "Hi"}, ["Hi"]),
        ({"message": {"role": "user", "content": "Hi"}}, ["Hi"]),
        ({"message": {"role": "user", "parts": [{"type": "text", "text": "Hi"}]}}, ["Hi"]),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]}, ["Hi"]),
        (
            {
                "messages": [
                    {"role": "user", "content": "old"},
                    {"role": "assistant"},
                    {"role": "user", "content": "new"},
                ]
            },
            ["new"],
        ),
        ({"messages": [{"role": "user", "content": ["a", "b"]}]}, [["a", "b"]]),
        ({"messages": [None, 5, {"role": "user"}]}, None),
        ({"messages": 5}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_users_turn_is_in_the_request_body(body, said):
    assert user_parts(body) == said


def test_the_bodys_own_fields_are_client_metadata():
    body = {"message": "Hi", "projectId": "p1", "sessionId": "s1", "toolChoice": {"type": "auto"}}
    (turn,) = run(say("Hi"), DONE, run={"request": body}).user_turns
    assert turn["client_metadata"] == {
        "app/project_id": "p1",
        "session_id": "s1",
        "agent.tool_choice": {"type": "auto"},
    }


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"conversationId": "c1", "sessionId": "s1"}, "c1"),
        ({"sessionId": "s1"}, "s1"),
        ({"conversationId": 5}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_conversation_is_told_by_meta(data, found):
    events = ["noise", event("message.start", conversationId="no"), {"event": "meta", "data": data}]
    assert DIALECTS["agents-sdk"].conversation_of(events) == found
