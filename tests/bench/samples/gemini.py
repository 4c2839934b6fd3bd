"""A run as the Gemini API streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields

IDENTITY = {"modelVersion": "gemini-3-flash", "responseId": "r1"}


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, each with the tokens so far, as the server sends them."""
    found = [
        {
            "candidates": [{"content": {"role": "model", "parts": [{"text": delta}]}, "index": 0}],
            "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": number + 1},
            **IDENTITY,
        }
        for number, delta in enumerate(deltas)
    ]
    last = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 12, "candidatesTokenCount": len(deltas)}
    return [*found, {"candidates": [last], "usageMetadata": usage, **IDENTITY}]
