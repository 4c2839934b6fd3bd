"""A run as Strands Agents streams it, for benchmarks."""

from collections.abc import Sequence
from typing import Any

from tests.bench.samples import bedrock
from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, up to its end."""
    inner: list[Any] = bedrock.answer(deltas)
    return [{"init_event_loop": True}, {"start": True}, *({"event": event} for event in inner)]
