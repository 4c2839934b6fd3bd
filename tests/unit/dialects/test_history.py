"""A history's exchanges become turns: their ids, their times, and what is said of messages that are none."""

from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from topics.thread_rules import check
from turnmill.errors import InvalidRecord

NOW = 1_768_928_342_000
ORIGIN = Origin("0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "weather", NOW, agent_name="Weather", external_id="chat-17")

UI = [
    {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Paris?"}]},
    {
        "id": "a1",
        "role": "assistant",
        "parts": [{"type": "step-start"}, {"type": "text", "text": "Sunny.", "state": "done"}],
    },
    {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Rome?"}]},
]
PYDANTIC = [
    {
        "kind": "request",
        "parts": [{"part_kind": "user-prompt", "content": "Paris?", "timestamp": "2026-01-20T10:00:00Z"}],
    },
    {"kind": "response", "parts": [{"part_kind": "text", "content": "Sunny."}], "timestamp": "2026-01-20T10:00:05Z"},
    {
        "kind": "request",
        "parts": [{"part_kind": "user-prompt", "content": "Rome?", "timestamp": "2026-01-20T09:00:00Z"}],
    },
    {"kind": "response", "parts": [{"part_kind": "text", "content": "Rain."}], "timestamp": "2026-01-20T09:00:09Z"},
]
PI = [
    {"role": "user", "content": "Paris?", "timestamp": 1000},
    {"role": "assistant", "content": [{"type": "text", "text": "Sunny."}], "stopReason": "stop", "timestamp": 2000},
    {"role": "user", "content": "Rome?", "timestamp": 3000},
]


def read(form: str, messages: Any) -> dict[str, Any]:
    document = thread(FORMATS[form].reader, messages, ORIGIN)
    assert [finding for finding in check(document) if finding.severity == "error"] == []
    return document


def kinds(document: dict[str, Any]) -> list[str]:
    return [turn["turn_type"] for turn in document["turns"]]


@pytest.mark.parametrize(("form", "messages"), [("vercel-ai", UI), ("pi-agent", PI), ("pydantic-ai", PYDANTIC[:3])])
def test_a_last_word_without_answer_is_a_user_turn_alone(form: str, messages: list[Any]) -> None:
    document = read(form, messages)
    assert kinds(document) == ["user", "agent", "user"]
    assert document["turns"][1]["completion_status"] == "complete"
    assert document["turns"][1]["messages"][0]["parts"][0]["content"] == "Sunny."
    assert document["metadata"]["meta:external_id"] == "chat-17"
    assert document["agents"]["weather"]["agent_name"] == "Weather"


@pytest.mark.parametrize(("form", "messages"), [("vercel-ai", UI), ("pi-agent", PI), ("pydantic-ai", PYDANTIC)])
def test_a_grown_history_keeps_the_ids_of_its_turns(form: str, messages: list[Any]) -> None:
    before = [turn["meta:turn_id"] for turn in read(form, messages[:2])["turns"]]
    assert [turn["meta:turn_id"] for turn in read(form, messages)["turns"]][:2] == before


def test_turns_stay_in_order_though_clocks_do_not() -> None:
    document = read("pydantic-ai", PYDANTIC)
    said = [message["parts"][0]["content"] for turn in document["turns"] for message in turn.get("messages", [turn])]
    assert said == ["Paris?", "Sunny.", "Rome?", "Rain."]
    assert document["turns"][2]["submitted_at"] == "2026-01-20T10:00:05.001Z"


def test_messages_without_time_get_the_time_of_the_import() -> None:
    assert read("vercel-ai", UI)["created_at"] == "2026-01-20T16:59:02.000Z"
    dated = [{**UI[0], "metadata": {"createdAt": "2026-01-01T00:00:00Z"}}, *UI[1:]]
    assert read("vercel-ai", dated)["created_at"] == "2026-01-01T00:00:00.000Z"


def test_what_was_still_streaming_is_cut_off() -> None:
    cut = {**UI[1], "parts": [*UI[1]["parts"], {"type": "text", "text": "And then", "state": "streaming"}]}
    (_, turn) = read("vercel-ai", [UI[0], cut])["turns"]
    assert turn["completion_status"] == "interrupted"
    assert [part["content"] for part in turn["messages"][0]["parts"]] == ["Sunny."]


def test_a_run_id_says_where_a_run_of_pydantic_ai_begins() -> None:
    steering = {"kind": "request", "run_id": "r1", "parts": [{"part_kind": "user-prompt", "content": "And Rome?"}]}
    runs = [{**PYDANTIC[0], "run_id": "r1"}, {**PYDANTIC[1], "run_id": "r1"}, steering, {**PYDANTIC[3], "run_id": "r1"}]
    assert kinds(read("pydantic-ai", runs)) == ["user", "agent"]
    assert kinds(read("pydantic-ai", [*runs[:2], {**steering, "run_id": "r2"}])) == ["user", "agent", "user"]


def test_the_user_may_speak_while_pi_works() -> None:
    call = {"type": "toolCall", "id": "c1", "name": "look", "arguments": {}}
    result = {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "look",
        "content": [],
        "isError": False,
        "timestamp": 3,
    }
    working = {"role": "assistant", "content": [call], "stopReason": "toolUse", "timestamp": 2}
    document = read("pi-agent", [PI[0], working, result, {"role": "user", "content": "Hurry", "timestamp": 4}, PI[1]])
    assert kinds(document) == ["user", "agent"]


SAME = [{"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("f", "g")]
RESULTS = [("f", "one"), ("g", "two")]
OF_ONE_ID: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [
        {"role": "assistant", "content": None, "tool_calls": SAME},
        *({"role": "tool", "tool_call_id": "c", "content": said} for _, said in RESULTS),
    ],
    "openai-responses": [
        *({"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"} for name, _ in RESULTS),
        *({"type": "function_call_output", "call_id": "c", "output": said} for _, said in RESULTS),
    ],
    "anthropic": [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c", "name": name, "input": {}} for name, _ in RESULTS],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": said} for _, said in RESULTS],
        },
    ],
    "langchain": [
        {"type": "ai", "content": "", "tool_calls": [{"name": name, "args": {}, "id": "c"} for name, _ in RESULTS]},
        *({"type": "tool", "tool_call_id": "c", "content": said} for _, said in RESULTS),
    ],
    "ag-ui": [
        {"id": "a1", "role": "assistant", "toolCalls": SAME},
        *({"id": said, "role": "tool", "toolCallId": "c", "content": said} for _, said in RESULTS),
    ],
    "google-adk": [
        {"role": "model", "parts": [{"functionCall": {"id": "c", "name": name, "args": {}}} for name, _ in RESULTS]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "c", "name": name, "response": said}} for name, said in RESULTS],
        },
    ],
}


@pytest.mark.parametrize("form", OF_ONE_ID)
def test_two_calls_of_one_id_are_two_and_get_their_results_in_turn(form: str) -> None:
    (turn,) = read(form, OF_ONE_ID[form])["turns"]
    response, request = turn["messages"]
    assert [part["tool_name"] for part in response["parts"]] == ["f", "g"]
    assert [(part["tool_name"], part["content"]) for part in request["parts"]] == RESULTS


@pytest.mark.parametrize(
    ("form", "messages", "detail"),
    [
        ("vercel-ai", {"role": "user"}, "a history is a JSON list"),
        ("vercel-ai", ["hi"], "a history is a JSON list"),
        ("vercel-ai", [{"content": "hi"}], "the history: 'role' is missing"),
        ("vercel-ai", [UI[1], {"role": "assistant", "parts": [{"type": "text"}]}], "exchange 2: 'text' is missing"),
        ("vercel-ai", [{"role": "assistant", "parts": 5}], "exchange 1: TypeError"),
        ("pydantic-ai", [{"kind": "request"}], "'parts' is missing"),
        ("pydantic-ai", [{"kind": "request", "parts": [{"content": "x"}]}], "'part_kind' is missing"),
        ("pi-agent", [{"content": "hi"}], "'role' is missing"),
    ],
)
def test_what_is_no_history_is_named(form: str, messages: Any, detail: str) -> None:
    with pytest.raises(InvalidRecord, match=detail):
        thread(FORMATS[form].reader, messages, ORIGIN)
