"""A run as pi's proxy streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """-> the events of an answer with these text deltas."""
    return [
        {"type": "start"},
        {"type": "text_start", "contentIndex": 0},
        *({"type": "text_delta", "contentIndex": 0, "delta": delta} for delta in deltas),
        {"type": "text_end", "contentIndex": 0},
        {"type": "done", "reason": "stop", "usage": {"input": 12, "output": len(deltas)}},
    ]
