"""A run as Chat Completions streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what the API sends around it."""
    return [_chunk({"role": "assistant", "content": ""}), *(_chunk({"content": d}) for d in deltas), _chunk({}, "stop")]


def _chunk(delta: Fields, finish: str | None = None) -> Fields:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
