"""Messages of each API in one form, and answers in the same one."""

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


@pytest.mark.parametrize("dialect", BODIES)
def test_one_form(dialect: str) -> None:
    user, call, result, answer = messages(dialect, BODIES[dialect])
    assert (user, call, answer) == (USER, CALL, ANSWER)
    assert (result.role, result.calls) == ("tool", ("call_1", "call_2"))
    if dialect != "gemini":
        assert result.text == "rainsun"


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
}


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
        assert answer.response_id == ("resp_1" if dialect == "openai-responses" else None)


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("openai-chat", {"error": {"message": "overloaded"}}),
        ("openai-responses", {"type": "error", "message": "overloaded"}),
        ("openai-responses", {"type": "response.failed", "response": {"status": "failed", "output": None}}),
        ("anthropic", {"type": "error", "error": {}}),
        ("gemini", {"error": {"code": 500}}),
    ],
)
def test_errors_inside_of_an_answer(dialect: str, event: Any) -> None:
    answer = Answer(dialect)
    answer.take(event)
    assert answer.failed
    assert answer.message is None
