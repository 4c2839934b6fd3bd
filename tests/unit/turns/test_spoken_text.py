"""What of a turn is searched."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.turns.spoken_text import spoken


def response(*parts: Any) -> dict[str, Any]:
    return {"turn_type": "agent", "messages": [{"message_type": "response", "parts": list(parts)}]}


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (None, []),
        ({"parts": [{"part_kind": "user-prompt", "content": "hi"}]}, [("said", "hi")]),
        (
            {"parts": [{"part_kind": "user-prompt", "content": ["a", {"kind": "image-url", "url": "u"}, 7]}]},
            [("said", "a")],
        ),
        (response({"part_kind": "text", "content": "yes"}), [("said", "yes")]),
        (response({"part_kind": "thinking", "content": "hm"}), [("thinking", "hm")]),
        (response({"part_kind": "thinking", "content": None}), []),
        (response({"part_kind": "tool-call", "tool_name": "find", "args": {"q": "secret"}}), [("said", "find")]),
        (
            response({"part_kind": "tool-return", "tool_name": "find", "content": {"a": ["x", 4, None, True]}}),
            [("results", "x\n4")],
        ),
        (response({"part_kind": "tool-return", "tool_name": "find", "content_ref": {"uri": "u"}}), []),
        (response({"part_kind": "text", "content": "", "meta:refs": {"content": {"uri": "u"}}}), [("said", "")]),
        (response({"part_kind": "file", "content": {"data": "aGk="}}, "junk", {"part_kind": ["x"]}), []),
        ({"parts": "x", "messages": [7, {"parts": None}]}, []),
    ],
)
def test_said_thought_and_given_back(turn: Any, expected: list[tuple[str, str]]) -> None:
    assert list(spoken(turn)) == expected


def test_a_result_is_looked_into_only_so_deep() -> None:
    value: Any = "deep"
    for _ in range(5000):
        value = [value]
    assert list(spoken(response({"part_kind": "tool-return", "content": value}))) == [("results", "")]
