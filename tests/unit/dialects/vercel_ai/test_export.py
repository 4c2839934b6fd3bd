"""Thread -> UI messages, of threads that did not come over the UI message stream."""

import pytest

from pipeline.dialects.vercel_ai.export import messages
from tests.support.assembled import assembled


def thread(*turns):
    return {"version": "0.0.4", "turns": list(turns), "agents": {}}


def agent(*items, **rest):
    return {"turn_type": "agent", "meta:turn_id": "turn-1", "messages": list(items), **rest}


def response(*parts):
    return {"message_type": "response", "parts": list(parts)}


def request(*parts):
    return {"message_type": "request", "parts": list(parts)}


def user(*parts):
    return {"turn_type": "user", "meta:turn_id": "user-1", "parts": list(parts)}


TEXT = {"part_kind": "text", "content": "Hi"}
CALL = {"part_kind": "tool-call", "tool_name": "weather", "tool_call_id": "c1", "args": {"city": "Paris"}}
RESULT = {"part_kind": "tool-return", "tool_name": "weather", "tool_call_id": "c1", "status": "success", "content": 7}


def only(*items):
    """The parts of the one assistant message, without step-starts."""
    (message,) = messages(thread(agent(*items)))
    assert message["role"] == "assistant"
    return [part for part in message["parts"] if part["type"] != "step-start"]


def test_turns_become_messages():
    found = messages(thread(user({"part_kind": "user-prompt", "content": "Hello"}), agent(response(TEXT))))
    assert found == [
        {"id": "user-1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]},
        {
            "id": "turn-1",
            "role": "assistant",
            "parts": [{"type": "step-start"}, {"type": "text", "text": "Hi", "state": "done"}],
        },
    ]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("Hi", {"type": "text", "text": "Hi"}),
        ({"kind": "text-content", "content": "Hi"}, {"type": "text", "text": "Hi"}),
        (
            {"kind": "binary", "data": "aGk=", "media_type": "text/plain"},
            {"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64,aGk="},
        ),
        ({"kind": "image-url", "url": "u"}, {"type": "file", "mediaType": "image/*", "url": "u"}),
        ({"kind": "document-url", "url": "u"}, {"type": "file", "mediaType": "application/octet-stream", "url": "u"}),
        (
            {"kind": "video-url", "url": "u", "media_type": "video/mp4"},
            {"type": "file", "mediaType": "video/mp4", "url": "u"},
        ),
    ],
)
def test_user_content(content, part):
    (message,) = messages(thread(user({"part_kind": "user-prompt", "content": [content]})))
    assert message["parts"] == [part]


def test_content_that_the_sdk_has_no_part_for_is_left_out():
    assert messages(thread(user({"part_kind": "user-prompt", "content": [{"kind": "cache-point"}, 5]}))) == []


@pytest.mark.parametrize(
    ("result", "fields"),
    [
        (RESULT, {"state": "output-available", "output": 7}),
        ({**RESULT, "status": "error", "content": "died"}, {"state": "output-error", "errorText": "died"}),
        ({**RESULT, "outcome": "failed", "content": {"a": 1}}, {"state": "output-error", "errorText": '{"a":1}'}),
        (
            {**RESULT, "status": "error", "outcome": "denied", "content": "no"},
            {"state": "output-denied", "approval": {"id": "c1", "approved": False, "reason": "no"}},
        ),
        (
            {"part_kind": "retry-prompt", "tool_call_id": "c1", "content": [{"msg": "bad"}]},
            {"state": "output-error", "errorText": '[{"msg":"bad"}]'},
        ),
        (
            {"part_kind": "tool-return", "tool_call_id": "c1", "status": "success", "content_ref": {"uri": "s3://b/k"}},
            {"state": "output-available", "output": {"content_ref": {"uri": "s3://b/k"}}},
        ),
        ({"part_kind": "retry-prompt", "content": "again"}, {"state": "input-available"}),
        ({**RESULT, "tool_call_id": "unknown"}, {"state": "input-available"}),
    ],
)
def test_results_go_to_their_calls(result, fields):
    call = {"type": "tool-weather", "toolCallId": "c1", "input": {"city": "Paris"}}
    assert only(response(CALL), request(result)) == [{**call, **fields}]


def test_a_result_may_come_in_a_later_turn():
    first, second = messages(
        thread(agent(response(CALL)), agent(request(RESULT), response(TEXT), **{"meta:turn_id": "2"}))
    )
    assert first["parts"][1]["output"] == 7
    assert [part["type"] for part in second["parts"]] == ["step-start", "text"]


def test_of_two_results_of_a_call_the_later_one_counts():
    failed = {**RESULT, "status": "error", "content": "no"}
    (part,) = only(response(CALL), request(failed, RESULT))
    assert (part["state"], part["output"], "errorText" in part) == ("output-available", 7, False)
    (part,) = only(response(CALL), request(RESULT, failed))
    assert (part["state"], part["errorText"], "output" in part) == ("output-error", "no", False)


def test_turns_of_one_message_are_one_message():
    shared = {"meta:vercel": {"id": "m1"}}
    merged = {"meta:vercel": {"id": "m1", "metadata": {"n": 2}}}
    (message,) = messages(thread(agent(response(CALL), **shared), agent(request(RESULT), response(TEXT), **merged)))
    assert [part["type"] for part in message["parts"]] == ["step-start", "tool-weather", "step-start", "text"]
    assert (message["parts"][1]["state"], message["metadata"]) == ("output-available", {"n": 2})


def test_native_tools_are_one_part():
    call, result = {**CALL, "part_kind": "builtin-tool-call"}, {**RESULT, "part_kind": "builtin-tool-return"}
    tool, said = only(response(call, result, TEXT))
    assert (tool["providerExecuted"], tool["output"], said["text"]) == (True, 7, "Hi")


def test_what_providers_said_is_written_as_pydantic_ai_does():
    thought = {
        "part_kind": "thinking",
        "content": "why",
        "thinking_id": "r1",
        "signature": "s",
        "provider_name": "acme",
    }
    (part,) = only(response(thought))
    own = {"id": "r1", "signature": "s", "provider_name": "acme"}
    assert part == {"type": "reasoning", "text": "why", "state": "done", "providerMetadata": {"pydantic_ai": own}}
    (tool,) = only(response({**CALL, "id": "fc_1"}))
    assert tool["callProviderMetadata"] == {"pydantic_ai": {"id": "fc_1"}}


def test_words_of_the_user_in_the_middle_part_the_message():
    prompt = {"part_kind": "user-prompt", "content": "Wait"}
    found = messages(thread(agent(response(CALL), request(RESULT, prompt), response(TEXT))))
    assert [message["role"] for message in found] == ["assistant", "user", "assistant"]
    assert found[0]["parts"][1]["state"] == "output-available"
    assert len({message["id"] for message in found}) == 3


def test_system_messages_are_side_parts():
    events = [
        ("source.url", {"source_id": "s", "url": "u", "title": "T"}),
        ("error", {"error": "down"}),
        ("data-app-x", 1),
        ("agent.handoff", {"to": "b"}),
    ]
    system = [{"message_type": "system", "event_type": kind, "event_data": data} for kind, data in events]
    assert only(system[0], response(TEXT), *system[1:]) == [
        {"type": "source-url", "sourceId": "s", "url": "u", "title": "T"},
        {"type": "text", "text": "Hi", "state": "done"},
        {"type": "data-app-x", "data": 1},
        {"type": "data-agent.handoff", "data": {"to": "b"}},
    ]


def test_side_parts_stand_where_they_came():
    side = {"message_type": "system", "event_type": "data-x", "event_data": 1, "meta:after_part": 1}
    late = {**side, "event_data": 2, "meta:after_part": 9}
    found = only(response(TEXT, TEXT), request(), side, late)
    assert [part.get("data") for part in found] == [None, 1, None, 2]


def test_other_kinds_of_parts_become_data():
    assert only(response({"part_kind": "compaction", "content": "c", "meta:x": 1})) == [
        {"type": "data-compaction", "data": {"content": "c"}}
    ]


def test_a_turn_that_says_nothing_is_no_message():
    assert messages(thread(agent(), user())) == []
    (message,) = messages(thread(agent(**{"meta:vercel": {"metadata": {"n": 1}}})))
    assert message["parts"] == [{"type": "step-start"}]


def test_a_file_that_lost_its_content_is_left_out():
    assert messages(thread(agent(response({"part_kind": "file", "content_ref": {"uri": "s3://b/k"}})))) == [
        {"id": "turn-1", "role": "assistant", "parts": [{"type": "step-start"}]}
    ]


def test_the_other_wires_messages():
    run = [
        {"type": "agent_start"},
        {"type": "agent_end", "messages": [{"role": "user", "content": "Hi", "timestamp": 1}]},
    ]
    assert assembled("pi-agent", run).export("vercel-ai")[0]["parts"] == [{"type": "text", "text": "Hi"}]


def test_a_call_without_arguments_has_an_input_since_the_sdk_refuses_it_without():
    call = {name: value for name, value in CALL.items() if name != "args"}
    assert only(response(call), request(RESULT))[0]["input"] == {}
