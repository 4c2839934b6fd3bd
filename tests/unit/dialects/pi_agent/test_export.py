"""Thread documents -> pi messages: of threads that never saw pi. What came from pi is tested with its dialect."""

import pytest

from pipeline.dialects.pi_agent.formats import messages

AT = "2026-01-20T16:59:02.000Z"
MS = 1_768_928_342_000


def document(*turns):
    return {"version": "0.0.4", "turns": list(turns)}


def user(*contents):
    return {
        "turn_type": "user",
        "submitted_at": AT,
        "parts": [{"part_kind": "user-prompt", "content": c} for c in contents],
    }


def agent(*said):
    return {"turn_type": "agent", "started_at": AT, "messages": list(said)}


def response(*parts, **fields):
    return {"message_type": "response", "timestamp": AT, "parts": list(parts), **fields}


def request(*parts):
    return {"message_type": "request", "timestamp": AT, "parts": list(parts)}


def call(name="get", args=None, kind="tool-call"):
    return {"part_kind": kind, "tool_name": name, "tool_call_id": "c1", "args": args}


def returned(content, **fields):
    return {"part_kind": "tool-return", "tool_name": "get", "tool_call_id": "c1", "content": content, **fields}


TEXT = {"part_kind": "text", "content": "Hello"}


def test_a_conversation():
    got = messages(
        document(user("Hi"), agent(response(TEXT, call(args={"a": 1})), request(returned("ok")), response(TEXT)))
    )
    assert [message["role"] for message in got] == ["user", "assistant", "toolResult", "assistant"]
    assert got[0] == {"role": "user", "content": [{"type": "text", "text": "Hi"}], "timestamp": MS}
    assert got[1]["content"] == [
        {"type": "text", "text": "Hello"},
        {"type": "toolCall", "id": "c1", "name": "get", "arguments": {"a": 1}},
    ]
    assert [got[1]["stopReason"], got[3]["stopReason"]] == ["toolUse", "stop"]


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        ("ok", ["ok"]),
        ({"v": 1}, ['{"v":1}']),
        (None, ["null"]),
        (["a", "b"], ['["a","b"]']),
        (["see", {"kind": "binary", "data": "aGk=", "media_type": "image/png"}], ["see", ("image/png", "aGk=")]),
    ],
)
def test_results_are_texts_and_images(content, blocks):
    (result,) = messages(document(agent(request(returned(content, status="success")))))
    assert [b.get("text") or (b["mimeType"], b["data"]) for b in result["content"]] == blocks
    assert result["isError"] is False


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (returned("boom", status="error"), True),
        (returned("boom", status="validation_error"), True),
        (returned("ok"), False),
        ({"part_kind": "retry-prompt", "tool_name": "get", "tool_call_id": "c1", "content": "again"}, True),
    ],
)
def test_errors_of_tools(part, error):
    (result,) = messages(document(agent(request(part))))
    assert (result["role"], result["toolCallId"], result["toolName"], result["isError"]) == (
        "toolResult",
        "c1",
        "get",
        error,
    )


def test_a_retry_without_a_tool_is_the_users():
    (asked,) = messages(
        document(agent(request({"part_kind": "retry-prompt", "tool_call_id": "made-up", "content": "again"})))
    )
    assert (asked["role"], asked["content"][0]["text"]) == ("user", "again")


def test_metadata_of_a_result_are_its_details():
    (result,) = messages(document(agent(request(returned("ok", metadata={"n": 1})))))
    assert result["details"] == {"n": 1}


def test_usage_is_split_again():
    usage = {
        "input_tokens": 127,
        "output_tokens": 5,
        "cache_read_tokens": 100,
        "cache_write_tokens": 20,
        "thinking_tokens": 2,
    }
    (said,) = messages(document(agent(response(TEXT, usage={**usage, "cost": 0.5, "requests": 1}))))
    assert said["usage"] == {
        "input": 7, "output": 5, "cacheRead": 100, "cacheWrite": 20, "reasoning": 2, "totalTokens": 132,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.5},
    }  # fmt: skip


def test_without_usage_all_is_zero():
    (said,) = messages(document(agent(response(TEXT))))
    assert said["usage"]["totalTokens"] == said["usage"]["input"] == said["usage"]["cost"]["total"] == 0


@pytest.mark.parametrize(
    ("provider", "api"),
    [("anthropic", "anthropic-messages"), ("openai", "openai-responses"), (None, "openai-completions")],
)
def test_the_api_follows_from_the_provider(provider, api):
    (said,) = messages(
        document(agent(response(TEXT, provider_name=provider, model_name="m", provider_response_id="r")))
    )
    assert (said["api"], said["provider"], said["model"], said["responseId"]) == (api, provider or "", "m", "r")


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "stop"), ("tool_call", "toolUse"), ("error", "error")],
)
def test_stop_reasons(reason, stop):
    (said,) = messages(document(agent(response(TEXT, finish_reason=reason))))
    assert said["stopReason"] == stop


def test_thinking_keeps_its_signature():
    thought = {"part_kind": "thinking", "content": "Hm", "signature": "c2ln", "provider_name": "anthropic"}
    hidden = {"part_kind": "thinking", "signature": "eHg=", "thinking_id": "redacted_thinking"}
    (said,) = messages(document(agent(response(thought, hidden))))
    assert said["content"] == [
        {"type": "thinking", "thinking": "Hm", "thinkingSignature": "c2ln"},
        {"type": "thinking", "thinking": "", "thinkingSignature": "eHg=", "redacted": True},
    ]


def test_a_providers_own_tools_are_calls_with_results():
    native = {"part_kind": "builtin-tool-return", "tool_name": "search", "tool_call_id": "c1", "content": {"n": 1}}
    got = messages(document(agent(response(call("search", kind="builtin-tool-call"), native, TEXT))))
    assert [message["role"] for message in got] == ["assistant", "toolResult"]
    assert [block["type"] for block in got[0]["content"]] == ["toolCall", "text"]


def test_what_pi_has_no_place_for_is_left_out():
    file = {"part_kind": "file", "content": {"url": "https://a.example/x.png", "content_type": "image/png"}}
    beside = [{"message_type": "system", "event_type": kind, "event_data": {}} for kind in ("error", "tool.grant", "x")]
    got = messages(document(agent(response(file, TEXT), *beside)))
    assert [block["type"] for block in got[0]["content"]] == ["text"]
    assert len(got) == 1


def test_content_by_url_is_a_text_with_the_url():
    picture = {"kind": "image-url", "url": "https://a.example/x.png", "identifier": "a"}
    (asked,) = messages(document(user(["see", picture])))
    assert [block["text"] for block in asked["content"]] == ["see", "https://a.example/x.png"]


def test_an_applications_data_is_a_message_of_its_role():
    note = {"message_type": "system", "timestamp": AT, "event_type": "data-app-note", "event_data": {"text": "x"}}
    assert messages(document(agent(note))) == [{"role": "note", "timestamp": MS, "text": "x"}]
    assert messages(document(agent({**note, "event_data": "x"}))) == []


def test_parts_of_unknown_kinds_do_no_harm():
    assert (
        messages(document(user({"kind": "other"}), agent(response({"part_kind": "custom:x"}), request({}))))[1][
            "content"
        ]
        == []
    )
