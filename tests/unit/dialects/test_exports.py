"""Names and ids of tool calls as models' servers take them."""

from __future__ import annotations

from typing import Any

from pipeline.dialects import FORMATS
from pipeline.dialects.exports import OwnIds
from pipeline.dialects.history import Origin, thread
from tests.support.assembled import START, THREAD_ID


def called(*ids: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    return {"role": "assistant", "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids]}


def told(identity: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


# As of a server that counts from 0 in each answer.
MESSAGES = [
    {"role": "user", "content": "Go."},
    called("0"),
    told("0", "a"),
    called("0", "1"),
    told("0", "b"),
    told("1", "c"),
    called("0"),
    told("0", "d"),
    {"role": "assistant", "content": "Done."},
]


def exported(form: str) -> list[dict[str, Any]]:
    reader = FORMATS["openai-chat"].reader
    assert reader is not None
    return FORMATS[form].write(thread(reader, MESSAGES, Origin(THREAD_ID, "agent", START)))


def test_later_calls_of_an_id_get_a_number_that_no_other_has() -> None:
    ids = OwnIds(["0", "0_2"])
    assert [ids.of_call("0"), ids.of_call("0"), ids.of_call("0_2"), ids.of_call("0")] == ["0", "0_3", "0_2", "0_4"]
    assert [ids.of_result("0") for _ in range(4)] == ["0", "0_3", "0_4", "0"]


def test_results_of_responses_items_stay_with_their_calls() -> None:
    items = exported("openai-responses")
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    results = [(item["call_id"], item["output"]) for item in items if item.get("type") == "function_call_output"]
    assert calls == ["0", "0_2", "1", "0_3"]
    assert results == [("0", "a"), ("0_2", "b"), ("1", "c"), ("0_3", "d")]


def test_results_of_anthropics_messages_stay_with_their_calls() -> None:
    blocks = [
        b for message in exported("anthropic") if isinstance(message["content"], list) for b in message["content"]
    ]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [(block["tool_use_id"], block["content"]) for block in blocks if block["type"] == "tool_result"]
    assert calls == ["0", "0_2", "1", "0_3"]
    assert results == [("0", "a"), ("0_2", "b"), ("1", "c"), ("0_3", "d")]
