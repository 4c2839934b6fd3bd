"""A run as Bedrock's ConverseStream says it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, up to its end, behind which its tokens come."""
    return [
        {"messageStart": {"role": "assistant"}},
        *({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": delta}}} for delta in deltas),
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "end_turn"}},
    ]
