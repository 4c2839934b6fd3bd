"""A run as Ollama streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what the API sends around it."""
    about = {"model": "m", "created_at": "2026-11-01T00:00:00Z"}
    said = ({"role": "assistant", "content": delta} for delta in deltas)
    counts = {"prompt_eval_count": 12, "eval_count": len(deltas)}
    end = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    return [*({**about, "message": message, "done": False} for message in said), {**about, **end, **counts}]
