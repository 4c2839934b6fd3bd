"""A run as Gemini CLI streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """-> the events of an answer with these text deltas."""
    at = {"timestamp": "2026-11-27T17:26:05.006Z"}
    stats = {"input_tokens": 12, "output_tokens": len(deltas), "total_tokens": 12 + len(deltas)}
    return [
        {"type": "init", **at, "session_id": "s", "model": "gemini-2.5-flash"},
        *({"type": "message", **at, "role": "assistant", "content": delta, "delta": True} for delta in deltas),
        {"type": "result", **at, "status": "success", "stats": stats},
    ]
