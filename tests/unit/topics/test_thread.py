"""The models keep what they do not know, and their JSON Schema tells the same story."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from topics.thread import AgentTurn, Thread, json_schema
from topics.thread_parts import MessagePart, OtherPart, ToolReturnPart

PART: TypeAdapter[Any] = TypeAdapter(MessagePart)


@pytest.mark.parametrize(
    "part",
    [
        {"part_kind": "text", "content": "hi", "meta:x": 1},
        {"part_kind": "thinking", "signature": "s", "new": {"deep": [1]}},
        {"part_kind": "tool-call", "tool_name": "t", "tool_call_id": "c", "args": [1, None]},
        {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "status": "error", "content": "no", "o": 1},
        {"part_kind": "retry-prompt", "content": [{"type": "missing", "loc": ["a"]}]},
        {
            "part_kind": "user-prompt",
            "content": ["a", {"kind": "image-url", "url": "u"}, {"kind": "cache-point", "ttl": 5}],
        },
        {"part_kind": "file", "content": {"content_type": "image/png", "url": "https://x/y.png"}},
        {"part_kind": "file", "content": {"kind": "binary", "data": "aGk=", "media_type": "text/plain"}},
        {"part_kind": "builtin-tool-call", "tool_name": "search", "args": {}},
        {"part_kind": "custom:badge", "content": {"any": "thing"}},
    ],
)
def test_parts_come_back_as_they_went_in(part: dict[str, Any]) -> None:
    assert PART.dump_python(PART.validate_python(part), exclude_unset=True) == part


def test_a_kind_chooses_its_model_and_an_unknown_one_is_kept() -> None:
    known = {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "status": "success"}
    assert isinstance(PART.validate_python(known), ToolReturnPart)
    assert isinstance(PART.validate_python({"part_kind": "custom:x"}), OtherPart)


@pytest.mark.parametrize(
    "part",
    [
        {"part_kind": "text", "content": 3},
        {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "status": "done"},
        {"part_kind": "user-prompt", "content": {"text": "hi"}},
        {"part_kind": None},
        {"content": "hi"},
        "text",
    ],
)
def test_known_kinds_must_have_their_shape(part: Any) -> None:
    with pytest.raises(ValidationError):
        PART.validate_python(part)


def test_unknown_turn_fields_and_event_types_are_kept() -> None:
    turn = {
        "turn_type": "agent",
        "agent_id": "a",
        "started_at": "2026-01-20T10:00:00Z",
        "completion_status": "complete",
        "messages": [
            {"message_type": "system", "timestamp": "t", "event_type": "data-new-thing", "event_data": None, "more": 1}
        ],
        "meta:run_id": "r",
        "total_usage": {"input_tokens": 1.5, "cost": "0.1"},
    }
    assert AgentTurn.model_validate(turn).model_dump(exclude_unset=True) == turn


def test_numbers_are_not_made_of_texts() -> None:
    with pytest.raises(ValidationError):
        AgentTurn.model_validate(
            {
                "turn_type": "agent",
                "agent_id": "a",
                "started_at": "t",
                "completion_status": "complete",
                "messages": [],
                "total_usage": {"input_tokens": "5"},
            }
        )


def test_json_schema_is_open_and_its_branches_exclude_each_other() -> None:
    schema = json_schema()
    definitions = schema["$defs"]
    assert schema["required"] == ["version", "thread_id", "created_at", "updated_at", "agents", "turns"]
    assert set(schema["properties"]) == set(Thread.model_fields)
    assert all(definition["additionalProperties"] is True for definition in definitions.values())
    kinds = {
        definition["properties"]["part_kind"].get("const")
        for definition in definitions.values()
        if "part_kind" in definition["properties"]
    }
    assert set(definitions["OtherPart"]["properties"]["part_kind"]["not"]["enum"]) == kinds - {None}
    assert schema["properties"]["created_at"]["format"] == "date-time"
