"""The results of a partition that assembly hands over to its host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.assembly.records import Refused, buried
from topics.feedback import FeedbackRecord
from topics.state import RunKey, Segment
from topics.telemetry import TelemetryRecord
from topics.turn_record import TurnRecord

TurnKey = tuple[str | None, str]  # (tenant, turn_id): the turn_id is derived from thread and run alone


@dataclass(slots=True)
class Counts:
    """The counts since the last reset; the caller adds them to its metrics and resets them."""

    records: int = 0
    events: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))  # by dialect
    duplicates: int = 0
    opened: int = 0
    reopened: int = 0
    closed: int = 0
    spilled: int = 0
    parked: int = 0


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A run whose turn could not be built. `segments`: state keys of the raw records that must become dead letters."""

    run: RunKey
    segments: tuple[str, ...]
    detail: str


@dataclass(frozen=True, slots=True, eq=False)
class Oversized:
    """A run whose turns exceed the record limit of their topic, to be cut by `oversized.cut_off`.

    `segments`: state keys of its raw records; `rest`: records that the state topic does not have.
    """

    run: RunKey
    segments: tuple[str, ...]
    rest: Segment
    revision: int


@dataclass(frozen=True, slots=True, eq=False)
class Parked:
    """A parked run that is over since `at` (broker ms); `parked_runs.build` closes it.

    `segments`: state keys of all its records, which have `size` bytes.
    """

    run: RunKey
    segments: tuple[str, ...]
    at: int
    size: int


class Built(NamedTuple):
    """A run with turns among the results, and its raw records, for the case that the turns can't be encoded.

    `records`: those that were not spilled before it ended; `segments`: state keys of the others. `offset` and `at`
    (broker ms) are those of its newest record.
    """

    run: RunKey
    turns: int
    records: list[bytes]
    segments: tuple[str, ...]
    offset: int
    at: int


@dataclass(slots=True)
class Out:
    """Results since they were last taken.

    `turns`, `telemetry`, `feedback`, `dead` and `segments` must be delivered before `marks` (state keys to write, or to
    remove with None) are, and these before any offset past them is committed. `built` has the runs of `turns`, in the
    same order, except runs that were cut off, whose turns come last.
    """

    turns: list[TurnRecord] = field(default_factory=list)
    built: list[Built] = field(default_factory=list)
    telemetry: list[TelemetryRecord] = field(default_factory=list)
    feedback: list[FeedbackRecord] = field(default_factory=list)
    dead: list[Refused] = field(default_factory=list)
    unbuilt: list[Unbuilt] = field(default_factory=list)
    oversized: list[Oversized] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)
    segments: list[tuple[str, bytes]] = field(default_factory=list)
    marks: list[tuple[str, bytes | None]] = field(default_factory=list)
    large: set[TurnKey] = field(default_factory=set)  # turns whose values should be moved out before they are encoded

    def add(self, other: Out) -> None:
        """Append the turns, telemetry and dead letters of another."""
        self.turns += other.turns
        self.telemetry += other.telemetry
        self.dead += other.dead
        self.large |= other.large

    def leave_out(self, encode: Callable[[TurnRecord], object]) -> None:
        """Remove the turns of runs for which `encode` raises; their raw records become dead letters."""
        turns, self.turns = self.turns, []
        built, self.built = self.built, []
        begin = 0
        for run in built:
            of_run = turns[begin : begin + run.turns]
            begin += run.turns
            try:
                for turn in of_run:
                    encode(turn)
            except Exception as error:  # an error of this program, which a retry would repeat
                detail = f"the turn could not be encoded: {type(error).__name__}: {error}"
                if run.segments:
                    self.unbuilt.append(Unbuilt(run.run, run.segments, detail))
                self.dead += buried(run.records, run.offset, run.at, run.run.thread_id, detail)
            else:
                self.turns += of_run
                self.built.append(run)
        self.turns += turns[begin:]
