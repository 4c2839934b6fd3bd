"""Messages of each API in one form, and answers in the same one."""

import json
from base64 import b64encode
from typing import Any

import pytest

from turnmill.capture.answers import Answer
from turnmill.capture.normal import NormalMessage, chain, merged, messages

USER, CALL = NormalMessage("user", "Weather?"), NormalMessage("assistant", "Let me look.", ("call_1", "call_2"))
ANSWER = NormalMessage("assistant", "It rains.")
BODIES: dict[str, Any] = {
    "openai-chat": {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Wea"}, {"type": "text", "text": "ther? "}]},
            {
                "role": "assistant",
                "content": "Let me look. ",
                "tool_calls": [{"id": "call_1", "function": {}}, {"id": "call_2", "function": {}}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
            {"role": "tool", "tool_call_id": "call_2", "content": "sun"},
            {
                "role": "assistant",
                "content": [{"type": "thinking", "text": "Hm"}, {"type": "text", "text": "It rains."}],
            },
        ]
    },
    "openai-responses": {
        "input": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {"type": "reasoning", "id": "rs", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
            {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"},
            {"type": "function_call", "call_id": "call_2", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
            {"type": "function_call_output", "call_id": "call_2", "output": "sun"},
            {"role": "assistant", "content": "It rains."},
        ]
    },
    "anthropic": {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Weather?", "cache_control": {"type": "ephemeral"}}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm", "signature": "s"},
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}},
                    {"type": "tool_use", "id": "call_2", "name": "weather", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "rain"},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": [{"type": "text", "text": "sun"}]},
                ],
            },
            {"role": "assistant", "content": "It rains."},
        ],
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "Weather?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Hm", "thought": True},
                    {"text": "Let me look."},
                    {"functionCall": {"id": "call_1", "name": "weather"}},
                    {"functionCall": {"id": "call_2", "name": "weather"}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "call_1", "response": {"a": 1}}},
                    {"functionResponse": {"id": "call_2", "response": {"b": 1}}},
                ],
            },
            {"role": "model", "parts": [{"text": "It rains."}]},
        ]
    },
}

BODIES |= {
    "bedrock": {
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "Weather?"}, {"cachePoint": {"type": "default"}}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "s"}}},
                    {"text": "Let me look."},
                    {"toolUse": {"toolUseId": "call_1", "name": "weather", "input": {}}},
                    {"toolUse": {"toolUseId": "call_2", "name": "weather", "input": {}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "call_1", "content": [{"text": "rain"}]}},
                    {"toolResult": {"toolUseId": "call_2", "content": [{"text": "sun"}]}},
                ],
            },
            {"role": "assistant", "content": [{"text": "It rains."}]},
        ],
    },
    "cohere": BODIES["openai-chat"],
    "gemini-interactions": {
        "system_instruction": "Be brief.",
        "input": [
            {"type": "user_input", "content": [{"type": "text", "text": "Weather?"}]},
            {"type": "thought", "signature": "s"},
            {"type": "model_output", "content": [{"type": "text", "text": "Let me look."}]},
            {"type": "google_search_call", "id": "search_1", "arguments": {}},
            {"type": "function_call", "id": "call_1", "name": "weather", "arguments": {}},
            {"type": "function_call", "id": "call_2", "name": "weather", "arguments": {}},
            {"type": "function_result", "call_id": "call_1", "result": "rain"},
            {"type": "function_result", "call_id": "call_2", "result": [{"type": "text", "text": "sun"}]},
            {"role": "model", "content": "It rains."},
        ],
    },
    "mistral": {
        "instructions": "Be brief.",
        "inputs": [
            {"role": "user", "content": "Weather?"},
            {
                "type": "message.output",
                "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Let me look."}],
            },
            {"type": "function.call", "id": "fc_1", "tool_call_id": "call_1", "name": "weather", "arguments": "{}"},
            {"type": "function.call", "id": "fc_2", "tool_call_id": "call_2", "name": "weather", "arguments": "{}"},
            {"type": "function.result", "tool_call_id": "call_1", "result": "rain"},
            {"type": "function.result", "tool_call_id": "call_2", "result": "sun"},
            {"role": "assistant", "content": "It rains."},
        ],
    },
}


@pytest.mark.parametrize("dialect", BODIES)
def test_one_form(dialect: str) -> None:
    user, call, result, answer = messages(dialect, BODIES[dialect])
    assert (user, call, answer) == (USER, CALL, ANSWER)
    assert (result.role, result.calls) == ("tool", ("call_1", "call_2"))
    if dialect != "gemini":
        assert result.text == "rainsun"


def test_calls_without_ids_have_the_names_of_their_tools() -> None:
    """Ollama's client drops the ids of calls."""
    function = {"function": {"name": "weather", "arguments": {}}}
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "thinking": "Hm", "tool_calls": [function, function]},
        {"role": "tool", "tool_name": "weather", "content": "rain"},
    ]
    called = NormalMessage("assistant", "", ("weather", "weather"))
    assert messages("ollama", {"messages": said}) == [USER, called, NormalMessage("tool", "rain", ("weather",))]
    streamed = Answer("ollama")
    for chunk in (function, {**function, "id": "call_1"}):
        streamed.take({"message": {"role": "assistant", "content": "", "tool_calls": [chunk]}, "done": False})
    assert not streamed.over
    streamed.take({"message": {"role": "assistant", "content": ""}, "done": True})
    assert (streamed.message, streamed.over, streamed.failed) == (called, True, False)
    assert (
        messages("ollama", {"prompt": "Weather?", "images": ["aGFyZQ=="]})
        != messages("ollama", {"prompt": "Weather?"})
        == [USER]
    )


def test_models_of_anthropic_on_bedrock_speak_its_wire_too() -> None:
    assert messages("bedrock", BODIES["anthropic"]) == messages("anthropic", BODIES["anthropic"])
    answer = Answer("bedrock")
    for event in STREAMS["anthropic"]:
        answer.take({"chunk": {"bytes": b64encode(json.dumps(event).encode()).decode()}})
    assert (answer.message, answer.over) == (CALL, True)
    answer.take({"chunk": {"bytes": "no base64"}})
    whole = Answer("bedrock")
    whole.take(WHOLE["anthropic"])
    assert (whole.message, whole.over) == (CALL, True)


@pytest.mark.parametrize("dialect", BODIES)
@pytest.mark.parametrize("body", [None, [], "x", {}, {"messages": 3, "input": {}, "contents": [None, {"parts": 1}]}])
def test_any_json_is_read(dialect: str, body: Any) -> None:
    assert messages(dialect, body) == []


def test_a_picture_is_compared_by_its_bytes_and_not_by_its_marks() -> None:
    def body(data: str, **more: Any) -> Any:
        return {"messages": [{"role": "user", "content": [{"type": "image", "source": {"data": data}, **more}]}]}

    first = messages("anthropic", body("a"))
    assert first == messages("anthropic", body("a", cache_control={"type": "ephemeral"}))
    assert first != messages("anthropic", body("b"))


def test_the_hashes_are_of_all_before() -> None:
    one = list(chain([USER, CALL]))
    assert one == list(chain([USER, CALL, ANSWER]))[:2]
    assert one[1] != list(chain([NormalMessage("user", "Weather"), CALL]))[1]
    assert list(chain([NormalMessage("user", "a", ("b",))])) != list(chain([NormalMessage("user", "ab")]))
    assert merged([NormalMessage("user", " "), NormalMessage("user", "")]) == []


STREAMS: dict[str, list[Any]] = {
    "openai-chat": [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Let me "}}]},
        {"choices": [{"index": 1, "delta": {"content": "other"}}]},
        {"choices": [{"index": 0, "delta": {"content": "look.", "tool_calls": [{"index": 0, "id": "call_1"}]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0}, {"index": 1, "id": "call_2"}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ],
    "openai-responses": [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "delta": "Let me look."},
        {"type": "response.output_item.done", "item": {"type": "function_call", "call_id": "call_1"}},
        {"type": "response.output_item.done", "item": {"type": "function_call", "call_id": "call_2"}},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Let me look."}},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "call_1"}},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "call_2"}},
        {"type": "message_stop"},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "Hm", "thought": True}, {"text": "Let me look."}]}}]},
        {
            "candidates": [
                {
                    "content": {"parts": [{"functionCall": {"id": "call_1"}}, {"functionCall": {"id": "call_2"}}]},
                    "finishReason": "STOP",
                }
            ]
        },
    ],
}
STREAMS |= {
    "bedrock": [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Hm"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"text": "Let me look."}}},
        {"contentBlockStart": {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "call_1"}}}},
        {"contentBlockStart": {"contentBlockIndex": 3, "start": {"toolUse": {"toolUseId": "call_2"}}}},
        {"messageStop": {"stopReason": "tool_use"}},
    ],
    "cohere": [
        {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "Two calls."}}},
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Let me look."}}}},
        {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": {"id": "call_1"}}}},
        {"type": "tool-call-delta", "index": 0, "delta": {"message": {"tool_calls": {"function": {}}}}},
        {"type": "tool-call-start", "index": 1, "delta": {"message": {"tool_calls": {"id": "call_2"}}}},
        {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}},
    ],
    "gemini-interactions": [
        {"event_type": "interaction.created", "interaction": {"id": "int_1", "status": "in_progress"}},
        {"event_type": "step.delta", "delta": {"type": "thought_summary", "content": {"text": "Hm"}}},
        {"event_type": "step.delta", "delta": {"type": "text", "text": "Let me look."}},
        {"event_type": "step.start", "step": {"type": "function_call", "id": "call_1", "name": "weather"}},
        {"event_type": "step.start", "step": {"type": "function_call", "id": "call_2", "name": "weather"}},
        {"event_type": "interaction.completed", "interaction": {"id": "int_1", "status": "requires_action"}},
    ],
    "mistral": [
        {"type": "conversation.response.started", "conversation_id": "conv_1"},
        {"type": "message.output.delta", "content": "Let me "},
        {"type": "message.output.delta", "content": {"type": "text", "text": "look."}},
        {"type": "message.output.delta", "content": {"type": "tool_reference", "tool": "web_search"}},
        {"type": "function.call.delta", "tool_call_id": "call_1", "name": "weather", "arguments": "{"},
        {"type": "function.call.delta", "tool_call_id": "call_1", "name": "weather", "arguments": "}"},
        {"type": "function.call.delta", "tool_call_id": "call_2", "name": "weather", "arguments": "{}"},
        {"type": "conversation.response.done", "usage": {}},
    ],
}
WHOLE: dict[str, Any] = {
    "openai-chat": {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": BODIES["openai-chat"]["messages"][2], "finish_reason": "stop"}],
    },
    "openai-responses": {
        "object": "response",
        "id": "resp_1",
        "status": "completed",
        "output": BODIES["openai-responses"]["input"][2:6],
    },
    "anthropic": {"type": "message", "content": BODIES["anthropic"]["messages"][1]["content"]},
    "gemini": {"candidates": [{"content": BODIES["gemini"]["contents"][1], "finishReason": "STOP"}]},
    "bedrock": {"metrics": {}, "output": {"message": BODIES["bedrock"]["messages"][1]}, "stopReason": "tool_use"},
    "cohere": {"id": "c", "finish_reason": "TOOL_CALL", "message": BODIES["openai-chat"]["messages"][2]},
    "gemini-interactions": {
        "id": "int_1",
        "object": "interaction",
        "status": "requires_action",
        "steps": BODIES["gemini-interactions"]["input"][1:6],
    },
    "mistral": {
        "object": "conversation.response",
        "conversation_id": "conv_1",
        "outputs": BODIES["mistral"]["inputs"][1:4],
    },
}
IDS = {"openai-responses": "resp_1", "gemini-interactions": "int_1", "mistral": "conv_1"}


@pytest.mark.parametrize("dialect", STREAMS)
def test_answers(dialect: str) -> None:
    streamed, whole = Answer(dialect), Answer(dialect)
    for event in STREAMS[dialect]:
        assert not streamed.over
        streamed.take(event)
    whole.take(WHOLE[dialect])
    for answer in (streamed, whole):
        assert answer.message == CALL
        assert answer.over
        assert not answer.failed
        assert answer.response_id == IDS.get(dialect)


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("openai-chat", {"error": {"message": "overloaded"}}),
        ("openai-responses", {"type": "error", "message": "overloaded"}),
        ("openai-responses", {"type": "response.failed", "response": {"status": "failed", "output": None}}),
        ("anthropic", {"type": "error", "error": {}}),
        ("gemini", {"error": {"code": 500}}),
        ("bedrock", {"throttlingException": {"message": "overloaded"}}),
        ("bedrock", {"error": {"code": "InternalFailure"}}),
        ("cohere", {"type": "message-end", "delta": {"finish_reason": "ERROR"}}),
        ("gemini-interactions", {"event_type": "error", "error": {}}),
        ("gemini-interactions", {"event_type": "interaction.completed", "interaction": {"status": "failed"}}),
        ("mistral", {"type": "conversation.response.error", "code": 500, "message": "overloaded"}),
        ("ollama", {"error": "overloaded"}),
    ],
)
def test_errors_inside_of_an_answer(dialect: str, event: Any) -> None:
    answer = Answer(dialect)
    answer.take(event)
    assert answer.failed
    assert answer.message is None
