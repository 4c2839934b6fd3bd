"""A run as ADK streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields

IDENTITY = {"id": "e1", "invocationId": "i1", "author": "agent", "timestamp": 1_768_928_342.002}


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas: fragments, then the whole event."""
    return [
        *({**IDENTITY, "partial": True, "content": _content(delta)} for delta in deltas),
        {
            **IDENTITY,
            "partial": False,
            "content": _content("".join(deltas)),
            "finishReason": "STOP",
            "modelVersion": "gemini-3-flash",
            "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": len(deltas)},
        },
    ]


def _content(text: str) -> Fields:
    return {"role": "model", "parts": [{"text": text}]}
