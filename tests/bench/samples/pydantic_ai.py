"""A run as Pydantic AI streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """-> the events of an answer with these text deltas."""
    whole = {"part_kind": "text", "content": "".join(deltas)}
    return [
        {"event_kind": "part_start", "index": 0, "part": {"part_kind": "text", "content": ""}},
        *(
            {"event_kind": "part_delta", "index": 0, "delta": {"part_delta_kind": "text", "content_delta": delta}}
            for delta in deltas
        ),
        {"event_kind": "part_end", "index": 0, "part": whole},
    ]
