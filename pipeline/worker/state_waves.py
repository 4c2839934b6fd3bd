"""What goes to the state topic, in the order in which it may become true there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.kafka.outbox import Outgoing


@dataclass(frozen=True, slots=True)
class StateWaves:
    """Entries for the state topic, in the order in which they may become true there."""

    segments: deque[Outgoing] = field(default_factory=deque)
    marks: deque[Outgoing] = field(default_factory=deque)
    tombstones: deque[Outgoing] = field(default_factory=deque)

    def __iter__(self) -> Iterator[deque[Outgoing]]:
        return iter((self.segments, self.marks, self.tombstones))

    def move_to(self, others: StateWaves) -> None:
        """Put all behind what `others` hold."""
        for mine, theirs in zip(self, others, strict=True):
            theirs.extend(mine)
            mine.clear()
