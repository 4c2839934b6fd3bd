"""Messages of Chat Completions out and in."""

from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.support.assembled import START, THREAD_ID, assembled
from topics.thread_rules import check
from turnmill.errors import InvalidRecord

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"city":"Paris"}'}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE], "name": "Ann"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "a", "content": "72F"},
    {"role": "user", "content": "Quick!"},
    {"role": "assistant", "content": "A cloud."},
    {"role": "user", "content": "Do harm."},
    {"role": "assistant", "content": None, "refusal": "No."},
    {"role": "user", "content": "Pity."},
]


def read(messages: list[dict[str, Any]]) -> dict[str, Any]:
    reader = FORMATS["openai-chat"].reader
    assert reader is not None
    return thread(reader, messages, Origin(THREAD_ID, "agent", START))


def test_a_history_comes_back_as_it_was() -> None:
    document = read([{"role": "system", "content": "be brief"}, *HISTORY])
    assert FORMATS["openai-chat"].write(document) == HISTORY
    assert not [finding for finding in check(document) if finding.severity == "error"]
    assert [turn["turn_type"] for turn in document["turns"]] == ["user", "agent", "user", "agent", "user"]


@pytest.mark.parametrize("messages", [[{"content": "x"}], [7], "x"])
def test_what_is_no_history_is_refused(messages: Any) -> None:
    with pytest.raises(InvalidRecord, match=r"history|exchange"):
        read(messages)


def test_a_thread_of_another_wire_goes_on() -> None:
    own = {"toolCallId": "s", "providerExecuted": True}
    got = assembled(
        "vercel-ai",
        [
            {"type": "start"},
            {"type": "start-step"},
            {"type": "tool-input-available", **own, "toolName": "search", "input": {}},
            {"type": "tool-output-available", **own, "output": {"n": 1}},
            {"type": "tool-input-available", "toolCallId": "open", "toolName": "ask", "input": {}},
            {"type": "finish-step"},
            {"type": "finish"},
        ],
    )
    called, result = got.export("openai-chat")[:2]
    assert [call["id"] for call in called["tool_calls"]] == ["s", "open"]
    assert result == {"role": "tool", "tool_call_id": "s", "content": '{"n":1}'}


def test_a_call_that_nobody_answered_is_left_out_where_the_thread_goes_on() -> None:
    document = read([{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [CALL]}])
    assert len(FORMATS["openai-chat"].write(document)) == 2
    later = read([*HISTORY[:1], {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]}, *HISTORY[3:5]])
    said = FORMATS["openai-chat"].write(later)
    assert said[1] == {"role": "assistant", "content": "Let me see."}
