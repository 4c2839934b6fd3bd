"""A run as pi streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """-> the events of an answer with these text deltas."""
    message = {"role": "assistant", "content": [{"type": "text", "text": "".join(deltas)}], "stopReason": "stop"}
    started = {**message, "content": []}
    return [
        {"type": "agent_start"},
        {"type": "message_start", "message": started},
        *(
            {
                "type": "message_update",
                "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": delta},
            }
            for delta in deltas
        ),
        {"type": "message_end", "message": message},
        {"type": "agent_end", "messages": [message]},
    ]
