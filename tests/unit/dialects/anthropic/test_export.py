"""Messages of the Messages API out and in."""

from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.support.assembled import START, THREAD_ID, assembled
from tests.support.chat_chunks import USER, calls, chunk, fragment, request, run
from topics.thread_rules import check
from turnmill.errors import InvalidRecord

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u"}]}
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "secret"},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"city": "Paris"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True},
            {"type": "text", "text": "Quick!"},
        ],
    },
    {"role": "assistant", "content": [SEARCH, FOUND, {"type": "text", "text": "It is.", "citations": [{"url": "u"}]}]},
    {"role": "user", "content": "Pity."},
]


def read(messages: Any) -> dict[str, Any]:
    reader = FORMATS["anthropic"].reader
    assert reader is not None
    return thread(reader, messages, Origin(THREAD_ID, "agent", START))


def test_a_history_comes_back_as_it_was() -> None:
    document = read(HISTORY)
    assert FORMATS["anthropic"].write(document) == HISTORY
    assert not [finding for finding in check(document) if finding.severity == "error"]
    assert [turn["turn_type"] for turn in document["turns"]] == ["user", "agent", "user"]


@pytest.mark.parametrize("messages", [[{"content": "x"}], [7], "x"])
def test_what_is_no_history_is_refused(messages: Any) -> None:
    with pytest.raises(InvalidRecord, match=r"history|exchange"):
        read(messages)


def test_a_thread_of_another_wire_goes_on() -> None:
    answer = {"role": "tool", "tool_call_id": "a", "content": "72F"}
    got = run(
        request(USER),
        chunk({"reasoning_content": "unsigned"}),
        calls(fragment("{}", index=0, id="a", name="f"), fragment("[1]", index=1, id="b", name="g")),
        chunk({}, "tool_calls"),
        request(USER, {"role": "assistant", "tool_calls": []}, answer, {"role": "user", "content": "Quick!"}),
        chunk({"content": "72F."}),
        chunk({}, "stop"),
    )
    assert got.export("anthropic") == [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "72F"},
                {"type": "text", "text": "Quick!"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "72F."}]},
    ]


def test_another_providers_own_tools_become_calls_with_results() -> None:
    own = {"toolCallId": "s", "providerExecuted": True}
    events = [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "tool-input-available", **own, "toolName": "search", "input": {}},
        {"type": "tool-output-available", **own, "output": {"n": 1}},
        {"type": "finish-step"},
        {"type": "finish"},
    ]
    called, result = assembled("vercel-ai", events).export("anthropic")
    assert called["content"][0]["type"] == "tool_use"
    assert result["content"] == [{"type": "tool_result", "tool_use_id": "s", "content": '{"n":1}'}]
