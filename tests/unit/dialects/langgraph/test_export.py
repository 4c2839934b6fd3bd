"""Threads -> LangChain messages, and histories of such messages -> threads."""

from typing import Any

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.support.assembled import assembled

ORIGIN = Origin("0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "agent-1", 1_768_903_200_000)
CALL = {"name": "weather", "args": {"city": "Paris"}, "id": "c1", "type": "tool_call"}
BROKEN = {"name": "weather", "args": "{city", "id": "c2", "error": None, "type": "invalid_tool_call"}
EMPTY: dict[str, Any] = {"additional_kwargs": {}, "tool_calls": [], "invalid_tool_calls": []}
THOUGHTS = [
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": text, "index": n} for n, text in enumerate("AB")],
        "encrypted_content": "gAA",
    },
    {"type": "reasoning", "reasoning": "So.", "extras": {"signature": "c2ln"}},
    {"type": "text", "text": "Look."},
]
HISTORY: list[dict[str, Any]] = [
    {"type": "human", "content": "Weather?", "id": "h1"},
    {
        **EMPTY,
        "type": "ai",
        "content": THOUGHTS,
        "id": "m1",
        "tool_calls": [CALL],
        "invalid_tool_calls": [BROKEN],
        "response_metadata": {"model_name": "gpt-5", "finish_reason": "tool_calls"},
        "usage_metadata": {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15},
    },
    {"type": "tool", "content": "no radar", "tool_call_id": "c1", "name": "weather", "status": "error", "id": "t1"},
    {"type": "tool", "content": "bad", "tool_call_id": "c2", "name": "weather", "status": "error", "id": "t2"},
    {**EMPTY, "type": "ai", "content": "No.", "id": "m2", "response_metadata": {"finish_reason": "stop"}},
    {"type": "human", "content": "Try again.", "id": "h2"},
]


def there_and_back(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    form = FORMATS["langchain"]
    assert form.reader is not None
    return form.write(thread(form.reader, messages, ORIGIN))


def test_a_history_comes_back_as_it_was() -> None:
    assert there_and_back([{"type": "system", "content": "Be kind."}, *HISTORY]) == HISTORY


def test_a_history_in_another_serialisation_is_the_same() -> None:
    names = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    lc = [{"lc": 1, "type": "constructor", "id": ["x", names[m["type"]]], "kwargs": m} for m in HISTORY]
    assert there_and_back(lc) == HISTORY
    assert there_and_back([{"type": message["type"], "data": message} for message in HISTORY]) == HISTORY


def test_a_thread_of_another_wire_goes_on_in_a_graph() -> None:
    events = [
        {"type": "start-step"},
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "weather", "input": {"city": "Paris"}},
        {"type": "tool-output-available", "toolCallId": "c1", "output": {"sky": "clear"}},
        {"type": "finish-step"},
        {"type": "finish"},
    ]
    call, answer = assembled("vercel-ai", events).export("langchain")
    assert call["tool_calls"] == [CALL]
    assert (answer["type"], answer["content"], answer["status"]) == ("tool", '{"sky":"clear"}', "success")
