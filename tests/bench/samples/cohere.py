"""A run as Cohere's chat API streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what the API sends around it."""
    usage = {"tokens": {"input_tokens": 12, "output_tokens": len(deltas)}}
    said = [{"content": {"text": delta}} for delta in deltas]
    return [
        {"id": "1", "type": "message-start", "delta": {"message": {"role": "assistant", "content": []}}},
        {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
        *({"type": "content-delta", "index": 0, "delta": {"message": message}} for message in said),
        {"type": "content-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}},
    ]
