"""Threads -> events of an ADK session, and back."""

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.support.assembled import START, THREAD_ID, assembled

FORMAT = FORMATS["google-adk"]


def imported(messages):
    return thread(FORMAT.reader, messages, Origin(THREAD_ID, "agent-1", START))


def test_an_adk_run_is_given_back_with_its_fields():
    said = {
        "id": "e1", "invocationId": "i1", "author": "helper", "timestamp": 1.5, "customMetadata": {"k": 1},
        "finishReason": "STOP", "modelVersion": "m1",
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 2},
        "content": {"role": "model", "parts": [
            {"text": "Hm", "thought": True, "thoughtSignature": "c2ln"},
            {"functionCall": {"id": "c1", "name": "get", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
        ]},
    }  # fmt: skip
    answer = {"functionResponse": {"id": "c1", "name": "get", "response": {"result": 3}}}
    returned = {"id": "e2", "invocationId": "i1", "author": "helper", "timestamp": 2.5}
    returned |= {"content": {"role": "user", "parts": [answer]}, "actions": {"stateDelta": {"n": 1}}}
    got = assembled("google-adk", [said, returned], end="complete")
    assert got.export("google-adk") == [said, returned]


def test_threads_of_other_wires():
    events = [
        {"type": "start", "messageId": "m"},
        {"type": "start-step"},
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "get", "input": {"a": 1}},
        {"type": "tool-output-available", "toolCallId": "c1", "output": "sunny"},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "Sunny."},
        {"type": "text-end", "id": "t"},
        {"type": "finish-step"},
        {"type": "finish"},
    ]
    body = {"messages": [{"role": "user", "parts": [{"type": "text", "text": "Weather?"}]}]}
    got = assembled("vercel-ai", events, run={"request": body, "agent_name": "weather"})
    exported = got.export("google-adk")
    assert [(event["author"], event["content"]) for event in exported] == [
        ("user", {"role": "user", "parts": [{"text": "Weather?"}]}),
        ("weather", {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "get", "args": {"a": 1}}}]}),
        (
            "weather",
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": "c1", "name": "get", "response": {"result": "sunny"}}}],
            },
        ),
        ("weather", {"role": "model", "parts": [{"text": "Sunny."}]}),
    ]
    assert [turn["turn_type"] for turn in imported(exported)["turns"]] == ["user", "agent"]


def test_contents_are_read_too():
    document = imported(
        [
            {"role": "user", "parts": [{"text": "Weather?"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "get", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "get", "response": {"result": 3}}}]},
            {"role": "model", "parts": [{"text": "Sunny."}]},
            {"role": "user", "parts": [{"text": "Thanks"}]},
        ]
    )
    assert [turn["turn_type"] for turn in document["turns"]] == ["user", "agent", "user"]
    answered = [part["tool_call_id"] for part in document["turns"][1]["messages"][1]["parts"]]
    assert answered == [document["turns"][1]["messages"][0]["parts"][0]["tool_call_id"]]


def test_events_in_milliseconds_and_in_seconds():
    for stamp in (1_768_928_342.5, 1_768_928_342_500):
        event = {"author": "user", "timestamp": stamp, "content": {"role": "user", "parts": [{"text": "Hi"}]}}
        assert imported([event])["turns"][0]["submitted_at"] == "2026-01-20T16:59:02.500Z"
