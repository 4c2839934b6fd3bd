"""A run as opencode's server streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """-> the events of an answer with these text deltas."""
    ids = {"sessionID": "s", "messageID": "m"}
    updated = {"type": "message.part.updated"}
    text = {"id": "p", "type": "text", **ids}
    tokens = {"input": 12, "output": len(deltas), "reasoning": 0, "cache": {"read": 0, "write": 0}}
    finish = {"id": "f", "type": "step-finish", **ids, "reason": "stop", "tokens": tokens, "cost": 0}
    return [
        {**updated, "properties": {"part": {"id": "a", "type": "step-start", **ids}}},
        {**updated, "properties": {"part": {**text, "text": "", "time": {"start": 1}}}},
        *(
            {"type": "message.part.delta", "properties": {**ids, "partID": "p", "field": "text", "delta": delta}}
            for delta in deltas
        ),
        {**updated, "properties": {"part": {**text, "text": "".join(deltas), "time": {"start": 1, "end": 2}}}},
        {**updated, "properties": {"part": finish}},
    ]
