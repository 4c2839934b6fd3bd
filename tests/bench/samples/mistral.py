"""A run as Mistral's conversations stream it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what the API sends around it."""
    place = {"type": "message.output.delta", "output_index": 0, "content_index": 0, "model": "m", "role": "assistant"}
    usage = {"prompt_tokens": 12, "completion_tokens": len(deltas), "total_tokens": 12 + len(deltas)}
    return [
        {"type": "conversation.response.started", "conversation_id": "conv_1"},
        *({**place, "content": delta} for delta in deltas),
        {"type": "conversation.response.done", "usage": usage},
    ]
