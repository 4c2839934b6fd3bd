"""A run as the Agents SDK streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """-> the events of an answer with these text deltas."""
    return [
        {"event": "message.start", "data": {"messageId": "m1", "role": "assistant"}},
        *({"event": "message.delta", "data": {"messageId": "m1", "delta": delta}} for delta in deltas),
        {"event": "message.end", "data": {"messageId": "m1"}},
        {"event": "done", "data": {"finishReason": "stop", "usage": {"inputTokens": 12, "outputTokens": len(deltas)}}},
    ]
