"""A run as an agent of the Agent Client Protocol streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """-> the events of an answer with these text deltas."""

    def update(delta: str) -> Fields:
        said = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": delta}}
        return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": said}}

    usage = {"inputTokens": 12, "outputTokens": len(deltas), "totalTokens": 12 + len(deltas)}
    return [
        *map(update, deltas),
        {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn", "usage": usage}},
    ]
