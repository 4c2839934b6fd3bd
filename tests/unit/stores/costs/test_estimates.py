"""The rule by which the tokens of what broke off are estimated."""

from typing import Any

import pytest

from pipeline.stores.costs.rows import estimated


def message(kind: str, text: Any, second: int, **more: Any) -> dict[str, Any]:
    parts = [{"part_kind": "text", "content": text}]
    return {"message_type": kind, "timestamp": f"2026-01-20T10:00:0{second}Z", "parts": parts, **more}


USAGE = {"usage": {"input_tokens": 100, "output_tokens": 20}}


@pytest.mark.parametrize(
    ("messages", "partial", "expected"),
    [
        ([], [], None),
        ([message("response", "all told", 1, **USAGE)], [], None),
        (
            [message("request", "a" * 40, 1)],
            [message("response", "b" * 9, 2)],
            {"input_tokens": 10, "output_tokens": 3},
        ),
        ([message("response", "kept", 1)], [], {"input_tokens": 0, "output_tokens": 1}),
        (
            [message("response", "a", 1, **USAGE), message("request", "b" * 8, 2)],
            [message("response", "c" * 4, 3), message("response", "d" * 4, 4)],
            {"input_tokens": 122 + 123, "output_tokens": 2},
        ),
        ([], [message("response", "its usage is here", 1, **USAGE)], None),
        (
            [],
            [message("response", None, 1, parts=[{"part_kind": "tool-call", "args": {"a": 1}}])],
            {"input_tokens": 0, "output_tokens": 2},
        ),
        ([None, message("response", 7, 1, parts=None), {"message_type": "response"}], ["x"], None),
        ([message("response", 7, 1, parts=5), message("response", "abcd", 1, parts=["x", None])], [], None),
    ],
)
def test_the_rule(messages: list[Any], partial: list[Any], expected: dict[str, int] | None) -> None:
    assert estimated({"messages": messages, "meta:partial": {"messages": partial}}) == expected
