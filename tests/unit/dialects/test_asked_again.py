"""The request behind a stored answer is the one that was sent, and is changed as its API takes it."""

from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.dialects.asked_again import HISTORY, answered, request_again, with_system, with_value
from pipeline.turns.thread_document import thread_document
from tests.support.upstream import chat_answer, gemini_events, message_events, response_events

THREAD = "8e06a734-32f3-584c-a380-4e57c9b39f3f"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
PARIS = '{"city":"Paris"}'
BODIES: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "model": "gpt-5",
        "temperature": 0.5,
        "tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": PARIS}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "Rain."},
        ],
    },
    "openai-responses": {
        "model": "gpt-5",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "Weather?"},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": PARIS},
            {"type": "function_call_output", "call_id": "c1", "output": "Rain."},
        ],
    },
    "anthropic": {
        "model": "claude-x",
        "max_tokens": 100,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Rain."}]},
        ],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"temperature": 0.5},
        "contents": [{"role": "user", "parts": [{"text": "Weather?"}]}],
    },
}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [chat_answer("It rains.")],
    "openai-responses": response_events("It rains."),
    "anthropic": message_events("It rains."),
    "gemini": gemini_events("It rains."),
}


def first(dialect: str) -> dict[str, Any]:
    """A conversation's first request: its last messages are answers to what the model did before."""
    member, _ = HISTORY[dialect]
    body = BODIES[dialect]
    words = 2 if dialect == "openai-chat" else 1
    return {**body, member: body[member][:words]}


def stored(dialect: str, *bodies: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A thread with an answer to the first of these requests, and the bodies that it names."""
    kind = DIALECTS[dialect].wire.kind
    events = [{kind: "turnmill.request", "request": bodies[0]}, *ANSWERS[dialect]]
    envelope = {
        "v": 1,
        "thread_id": THREAD,
        "run_id": "r",
        "agent_id": "a",
        "dialect": dialect,
        "seq": 0,
        "ts": 1,
        "events": events,
        "end": "complete",
        "run": {"provider_name": "openai"},
    }
    records, refused = assemble(DIALECTS[dialect], [envelope], keep_requests=True)
    assert refused == []
    asked = {name: body for record in records for name, body in record.get("requests", {}).items()}
    return thread_document(THREAD, records), asked


@pytest.mark.parametrize("dialect", HISTORY)
def test_the_request_is_as_it_was(dialect: str) -> None:
    body = first(dialect)
    document, asked = stored(dialect, body)
    turn = document["turns"][-1]
    response, place = answered(turn) or ({}, -1)
    assert place >= 0
    assert request_again(document, turn, place, asked[response["meta:request"]["sha256"]], dialect) == body


@pytest.mark.parametrize("dialect", HISTORY)
def test_what_a_server_keeps_is_not_named(dialect: str) -> None:
    document, asked = stored(dialect, {**first(dialect), "background": True})
    (body,) = asked.values()
    again = request_again(document, document["turns"][-1], 0, {**body, "previous_response_id": "resp_0"}, dialect)
    assert again == first(dialect)


@pytest.mark.parametrize(
    ("dialect", "member"),
    [
        ("openai-chat", {"messages": [{"role": "system", "content": "New."}, *first("openai-chat")["messages"][1:]]}),
        ("openai-responses", {"instructions": "New."}),
        ("anthropic", {"system": "New."}),
        ("gemini", {"systemInstruction": {"parts": [{"text": "New."}]}}),
    ],
)
def test_another_system_prompt_stands_where_the_api_has_it(dialect: str, member: dict[str, Any]) -> None:
    assert with_system(first(dialect), dialect, "New.") == {**first(dialect), **member}


def test_a_system_prompt_comes_before_messages_that_have_none() -> None:
    said = [{"role": "user", "content": "Weather?"}]
    assert with_system({"messages": said}, "openai-chat", "New.")["messages"] == [
        {"role": "system", "content": "New."},
        *said,
    ]


def test_values_are_set_at_paths_and_taken_away() -> None:
    body = BODIES["gemini"]
    assert with_value(body, "generationConfig.temperature", 0)["generationConfig"] == {"temperature": 0}
    assert with_value(body, "generationConfig.thinkingConfig.thinkingBudget", 5)["generationConfig"] == {
        "temperature": 0.5,
        "thinkingConfig": {"thinkingBudget": 5},
    }
    assert "generationConfig" not in with_value(body, "generationConfig", None)
    with pytest.raises(ValueError, match="contents is no object"):
        with_value(body, "contents.role", 1)
