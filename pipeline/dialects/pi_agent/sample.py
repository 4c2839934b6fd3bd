"""A run as pi streams it, for benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what the SDK sends around it."""
    said = {"role": "assistant", "content": [{"type": "text", "text": "".join(deltas)}], "stopReason": "stop"}
    begun = {**said, "content": []}
    return [
        {"type": "agent_start"},
        {"type": "message_start", "message": begun},
        *(
            {
                "type": "message_update",
                "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": delta},
            }
            for delta in deltas
        ),
        {"type": "message_end", "message": said},
        {"type": "agent_end", "messages": [said]},
    ]
