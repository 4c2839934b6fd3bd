"""A run as `codex app-server` tells it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """-> the events of an answer with these text deltas."""
    ids = {"threadId": "t", "turnId": "u"}
    used = {"inputTokens": 12, "outputTokens": len(deltas)}
    return [
        {"method": "turn/started", "params": ids},
        *({"method": "item/agentMessage/delta", "params": {**ids, "itemId": "m", "delta": delta}} for delta in deltas),
        {
            "method": "item/completed",
            "params": {**ids, "item": {"type": "agentMessage", "id": "m", "text": "".join(deltas)}},
        },
        {"method": "thread/tokenUsage/updated", "params": {**ids, "tokenUsage": {"total": used, "last": used}}},
        {"method": "turn/completed", "params": {**ids, "turn": {"id": "u", "status": "completed"}}},
    ]
