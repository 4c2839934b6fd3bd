"""ADK's events -> turns: whole events are the session, fragments are for display."""

import pytest

from tests.support.assembled import assembled
from topics.thread_rules import check

USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4}


def event(*parts, author="helper", number=1, **rest):
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {"id": f"e{number}", "invocationId": "i1", "author": author, "actions": {}, **content, **rest}


def text(said, **rest):
    return {"text": said, **rest}


def call(call_id="c1", name="get", **args):
    return {"functionCall": {"id": call_id, "name": name, "args": args}}


def answer(response, call_id="c1", name="get"):
    return {"functionResponse": {"id": call_id, "name": name, "response": response}}


def run(*events, end="complete", **rest):
    got = assembled("google-adk", list(events), end=end, **rest)
    assert not [finding for finding in check(got.document) if finding.severity == "error"]
    return got


def test_a_whole_event_replaces_its_fragments():
    fragments = [event(text(piece), partial=True, usageMetadata=USAGE) for piece in ("Hel", "lo")]
    got = run(*fragments, event(text("Hello"), partial=False, modelVersion="m1", usageMetadata=USAGE))
    (response,) = got.messages("response")
    assert response["parts"] == [{"part_kind": "text", "content": "Hello"}]
    assert (response["model_name"], response["agent_id"]) == ("m1", "helper")
    assert response["usage"] == {
        "input_tokens": 10, "output_tokens": 5, "thinking_tokens": 2, "cache_read_tokens": 4
    }  # fmt: skip
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert not got.refused


def test_fragments_are_what_was_seen_of_a_run_that_broke_off():
    thought = event(text("Hm", thought=True), partial=True)
    begun = event({"functionCall": {"id": "c1", "name": "get", "willContinue": True}}, partial=True)
    got = run(thought, event(text("Hel"), partial=True), event(text("lo"), partial=True), begun, end="aborted")
    assert got.messages("response") == []
    (seen,) = got.agent_turns[0]["meta:partial"]["messages"]
    assert [part.get("content", part.get("tool_name")) for part in seen["parts"]] == ["Hm", "Hello", "get"]


def test_fragments_without_their_whole_event_broke_off_whatever_the_publisher_says():
    got = run(event(text("First"), number=1), event(text("Hel"), partial=True, number=2), end="complete")
    (turn,) = got.agent_turns
    assert (turn["completion_status"], turn["interruption"]["reason"]) == ("interrupted", "network_failure")
    assert [part["content"] for part in got.parts("response")] == ["First"]
    assert [part["content"] for part in turn["meta:partial"]["messages"][0]["parts"]] == ["Hel"]


def test_only_the_publisher_says_that_a_run_is_complete():
    assert run(event(text("Hello")), end="disconnected").agent_turns[0]["completion_status"] == "interrupted"


def test_both_spellings_are_read():
    snake = {"id": "e1", "invocation_id": "i1", "author": "helper", "usage_metadata": {"prompt_token_count": 7}}
    part = {"function_call": {"id": "c1", "name": "get", "args": {"a_b": 1}}, "thought_signature": "c2ln"}
    got = run({**snake, "model_version": "m1", "content": {"parts": [part], "role": "model"}})
    (response,) = got.messages("response")
    assert response["parts"][0]["args"] == {"a_b": 1}
    assert response["parts"][0]["meta:thought_signature"] == "c2ln"
    assert response["usage"] == {"input_tokens": 7}


@pytest.mark.parametrize(
    ("response", "status"),
    [
        ({"result": 3}, "success"),
        ({"error": "no such city"}, "error"),
        ({"error": ""}, "success"),
        ({"isError": True, "content": []}, "error"),
        (None, "success"),
    ],
)
def test_a_result_says_itself_whether_its_tool_failed(response, status):
    got = run(event(call(city="Paris")), event(answer(response), number=2))
    (part,) = got.parts("request")
    assert (part["tool_call_id"], part["status"], part["content"]) == ("c1", status, response)


def test_parts_without_ids_are_told_apart_by_their_place():
    bare = {"functionCall": {"name": "get", "args": {}}}
    code = {"executableCode": {"code": "1+1", "language": "PYTHON"}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
    got = run(
        event(bare, bare, code), event({"functionResponse": {"name": "get", "response": {}}}, number=2), event(result)
    )
    calls = [part["tool_call_id"] for part in got.parts("response")]
    assert calls == ["e1:0", "e1:1", "e1:2", "e1:2"]
    assert [part["tool_call_id"] for part in got.parts("request")] == ["e1:0"]


def test_an_event_that_comes_twice_counts_once():
    first, second = event(text("Hi"), usageMetadata=USAGE), event(answer({"n": 1}), number=2)
    got = run(event(call(), number=0), first, first, second, second)
    assert len(got.messages("response")) == 2
    assert len(got.parts("request")) == 1
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 10


def test_an_event_that_a_server_splits_counts_its_tokens_once():
    whole = event(text("Hi"), usageMetadata=USAGE)
    delta = event(usageMetadata=USAGE) | {"actions": {"artifactDelta": {"plot.png": 0}}}
    got = run(whole, delta)
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 10
    assert [m["event_type"] for m in got.messages("system")] == ["custom:google-adk.artifactDelta"]


def test_counts_that_both_events_of_one_call_repeat_are_counted_once():
    got = run(event(text("Hi"), usageMetadata=USAGE), event(call(), number=2, usageMetadata=USAGE))
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 10
    loop = run(event(text("Hi"), usageMetadata=USAGE), event(text("Hi again"), number=2, usageMetadata=USAGE))
    assert loop.agent_turns[0]["total_usage"]["input_tokens"] == 20
    again = run(
        event(call(), usageMetadata=USAGE),
        event(answer({}), number=2),
        event(text("Hi"), number=3, usageMetadata=USAGE),
    )
    assert again.agent_turns[0]["total_usage"]["input_tokens"] == 20


def test_tokens_that_come_behind_what_was_said():
    got = run(event(text("Hi")), event(number=2, turnComplete=True, usageMetadata=USAGE))
    assert got.messages("response")[0]["usage"]["output_tokens"] == 5


def test_a_transfer_stays_in_the_turn():
    moved = event(answer({"result": None}, name="transfer_to_agent"), author="desk", number=2)
    moved["actions"] = {"transferToAgent": "booking"}
    got = run(
        event(call(name="transfer_to_agent"), author="desk"), moved, event(text("Hi"), author="booking", number=3)
    )
    assert len(got.agent_turns) == 1
    assert [m["agent_id"] for m in got.messages("response")] == ["desk", "booking"]
    (handoff,) = got.messages("system")
    assert (handoff["event_type"], handoff["event_data"]) == ("handoff", {"from": "desk", "to": "booking"})
    assert {"desk", "booking"} <= got.document["agents"].keys()


def test_the_runs_own_agent_keeps_its_id():
    got = run(event(text("Hi")), run={"agent_name": "helper"})
    assert got.messages("response")[0]["agent_id"] == "agent-1"


def test_agents_on_branches_speak_at_the_same_time():
    left, right = {"author": "a", "branch": "fan.a"}, {"author": "b", "branch": "fan.b"}
    got = run(
        *(event(text(piece), partial=True, **who) for piece, who in (("L", left), ("R", right), ("l", left))),
        event(text("Rr"), number=2, **right), event(text("Ll"), number=3, **left),
    )  # fmt: skip
    assert [part["content"] for part in got.parts("response")] == ["Rr", "Ll"]


def test_an_error_line_is_an_error_whatever_the_publisher_says():
    code = event(errorCode="ValueError", errorMessage="disk is full", number=2)
    line = {"error": "ValueError: disk is full", "error_details": {"error_message": "disk is full"}}
    got = run(event(text("Hi")), code, line)
    (turn,) = got.agent_turns
    assert turn["interruption"]["reason"] == "error"
    assert turn["interruption"]["detail"] == "ValueError: disk is full"
    assert [m["event_data"] for m in got.messages("system")] == [{"code": "ValueError", "message": "disk is full"}]
    assert [part["content"] for part in got.parts("response")] == ["Hi"]


@pytest.mark.parametrize(
    ("reason", "finish"), [("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("STOP", "stop")]
)
def test_an_answer_that_was_cut_short_is_complete(reason, finish):
    code = {} if reason == "STOP" else {"errorCode": reason}
    got = run(event(text("Hi"), finishReason=reason, **code))
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert got.messages("response")[0]["finish_reason"] == finish


def test_a_blocked_prompt_was_paid_for():
    got = run(event(errorCode="PROHIBITED_CONTENT", errorMessage="Blocked.", usageMetadata=USAGE))
    (response,) = got.messages("response")
    assert (response["parts"], response["finish_reason"]) == ([], "content_filter")
    assert got.messages("system")[0]["event_data"] == {"code": "PROHIBITED_CONTENT", "message": "Blocked."}


def test_secrets_of_auth_configs_are_left_out():
    asked = event(number=2) | {"actions": {"requestedAuthConfigs": {"c1": {"clientSecret": "hush"}}}}
    got = run(event(text("Hi")), asked)
    assert got.messages("system")[0]["event_data"] == {"tool_call_ids": ["c1"]}
    assert "hush" not in str(got.document)


def test_sources_files_and_what_is_not_known_are_kept():
    page = {"web": {"uri": "https://example.org/a", "title": "A"}}
    image = {"inlineData": {"mimeType": "image/png", "data": "-_8="}}
    got = run(event(image, {"toolCall": {"x": 1}}, groundingMetadata={"groundingChunks": [page]}, brandNew=7))
    file, other = got.parts("response")
    assert (file["content"]["media_type"], file["content"]["data"]) == ("image/png", "+/8=")
    assert other == {"part_kind": "custom:google-adk", "part": {"toolCall": {"x": 1}}}
    assert got.messages("response")[0]["meta:adk"]["brandNew"] == 7
    (source,) = got.messages("system")
    assert source["event_data"] == {"source_id": "e1:0", "url": "https://example.org/a", "title": "A"}


def test_the_users_words_are_in_the_request_and_in_the_stream():
    body = {"appName": "app", "newMessage": {"role": "user", "parts": [{"text": "Weather?"}]}}
    echo = event(text("Weather?"), author="user", number=0)
    later = event(text("And Rome?"), author="user", number=2)
    got = run(echo, event(text("Sunny.")), later, event(text("Rainy."), number=3), run={"request": body})
    assert [turn["parts"][0]["content"] for turn in got.user_turns] == ["Weather?"]
    assert [part["content"] for part in got.parts("request")] == ["And Rome?"]


def test_all_of_a_run_may_come_at_once():
    got = run({"event": None, "data": [event(call()), event(answer({}), number=2), event(text("Hi"), number=3)]})
    assert [m["message_type"] for m in got.agent_turns[0]["messages"]] == ["response", "request", "response"]


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "text-delta", "delta": "x"},
        {"author": 7},
        event(text("Hi")) | {"content": 5},
        event(text("Hi")) | {"usageMetadata": [1]},
        event({"functionCall": {"args": {}}}),
        event({"functionResponse": "x"}),
    ],
)
def test_what_is_no_event_is_refused_and_leaves_nothing(bad):
    got = run(bad, event(text("Hi"), number=2))
    assert len(got.refused) == 1
    assert [part["content"] for part in got.parts("response")] == ["Hi"]
    assert not got.messages("system")
