"""The text that events of each dialect add."""

from typing import Any

import pytest

from pipeline.dialects import text_of


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("vercel-ai", {"type": "text-delta", "delta": "Hi"}),
        ("pydantic-ai", {"event_kind": "part_delta", "delta": {"part_delta_kind": "text", "content_delta": "Hi"}}),
        ("pydantic-ai", {"event_kind": "part_start", "part": {"part_kind": "text", "content": "Hi"}}),
        ("pi-agent", {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": "Hi"}}),
        ("pi-proxy", {"type": "text_delta", "delta": "Hi"}),
        ("agents-sdk", {"event": "message.delta", "data": {"delta": "Hi"}}),
    ],
)
def test_each_dialect_says_something(dialect: str, event: dict[str, Any]) -> None:
    assert text_of(dialect, [event, event]) == "HiHi"


@pytest.mark.parametrize("dialect", ["vercel-ai", "pydantic-ai", "pi-agent", "pi-proxy", "agents-sdk", "no-such"])
@pytest.mark.parametrize(
    "event",
    [None, 7, {}, {"type": "text-delta", "delta": 5}, {"type": "message_update", "assistantMessageEvent": "x"},
     {"event_kind": "part_delta", "delta": []}, {"event": "message.delta", "data": None}],
)  # fmt: skip
def test_anything_else_says_nothing(dialect: str, event: Any) -> None:
    assert text_of(dialect, [event]) == ""
