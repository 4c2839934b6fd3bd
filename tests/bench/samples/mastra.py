"""A run as Mastra's agents stream it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and its end."""
    chunks: list[tuple[str, Fields]] = [
        ("start", {"id": "agent", "messageId": "m"}),
        ("step-start", {"request": {}}),
        ("text-start", {"id": "t"}),
        *(("text-delta", {"id": "t", "text": delta}) for delta in deltas),
        ("text-end", {"id": "t"}),
        ("step-finish", {"stepResult": {"reason": "stop"}, "output": {"usage": {"inputTokens": 9, "outputTokens": 3}}}),
        ("finish", {"stepResult": {"reason": "stop"}}),
    ]
    return [{"type": kind, "runId": "r", "from": "AGENT", "payload": payload} for kind, payload in chunks]
