"""The offsets of each partition that a snapshot of the lake contains. Pure.

Property `turnmill.offsets` of the snapshot: {"TOPIC/PARTITION": [begin, end, at]}, end exclusive; `at` is the newest of
the records' times, epoch ms. A segment within this range is written already. The time distinguishes it from a segment
of a deleted and recreated topic, whose offsets begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from topics import json_text

PROPERTY: Final = "turnmill.offsets"

Offsets = Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Source:
    """A range of offsets of one partition, `end` exclusive; `at`: the newest time of its records, epoch ms."""

    topic: str
    partition: int
    begin: int
    end: int
    at: int

    @property
    def name(self) -> str:
        """The name in the property."""
        return f"{self.topic}/{self.partition}"


def parse(text: str | None) -> Offsets:
    """Return the offsets of the property's value; none where it is missing."""
    return {name: (begin, end, at) for name, (begin, end, at) in json_text.loads(text or "{}").items()}


def text(offsets: Offsets) -> str:
    """Return the property's value."""
    return json_text.dumps({name: list(offsets[name]) for name in sorted(offsets)})


def holds(offsets: Offsets, source: Source) -> bool:
    """Return True if these offsets contain the whole range."""
    if source.name not in offsets:
        return False
    begin, end, at = offsets[source.name]
    return begin <= source.begin and source.end <= end and source.at <= at


def with_source(offsets: Offsets, source: Source) -> Offsets:
    """Return the offsets with one more range.

    A range that doesn't continue the known one replaces it: it may be of another topic of that name, and writing a
    segment twice does no harm.
    """
    begin, end, at = offsets.get(source.name, (source.begin, source.begin, source.at))
    if end != source.begin:
        begin, at = source.begin, source.at
    return {**offsets, source.name: (begin, source.end, max(at, source.at))}
