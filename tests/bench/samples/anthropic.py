"""A run as the Messages API streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what the API sends around it."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    said = ({"type": "text_delta", "text": delta} for delta in deltas)
    return [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 12, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in said),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": len(deltas)}},
        {"type": "message_stop"},
    ]
