"""What assembly of a partition hands over to its host."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from pipeline.assembly.records import Refused
from topics.telemetry import TelemetryRecord
from topics.turn_record import TurnRecord


@dataclass(slots=True)
class Counts:
    """What happened since the last look; the caller adds it to its metrics and resets it."""

    records: int = 0
    events: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))  # by dialect
    duplicates: int = 0
    opened: int = 0
    reopened: int = 0
    closed: int = 0
    spilled: int = 0


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A run whose turn could not be built. `segments`: state keys of raw records that are to become dead letters."""

    thread_id: str
    segments: tuple[str, ...]
    detail: str


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What a large run was made of: its raw records, those on the state topic by the keys of their segments; and the
    offset and the time (broker ms) of the last one.
    """

    unspilled: tuple[bytes, ...]
    segments: tuple[str, ...]
    offset: int
    at: int


@dataclass(slots=True)
class Out:
    """Results since they were last taken.

    `turns`, `telemetry`, `dead` and `segments` must be delivered before `marks` (state keys to write, or to remove
    with None) are, and these before any offset past them is committed.
    """

    turns: list[TurnRecord] = field(default_factory=list)
    telemetry: list[TelemetryRecord] = field(default_factory=list)
    dead: list[Refused] = field(default_factory=list)
    unbuilt: list[Unbuilt] = field(default_factory=list)
    segments: list[tuple[str, bytes]] = field(default_factory=list)
    marks: list[tuple[str, bytes | None]] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)  # by turn_id, of turns that may be too large to be sent
