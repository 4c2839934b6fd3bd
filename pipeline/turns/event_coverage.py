"""The events of its run that a turn record has, and whether another record of the run may replace it.

Records of one run are versions of it: a run goes on after it was stored, or is assembled again. A version may replace
another one if it has all events of that. If each has events that the other lacks, neither may replace the other: for
instance if the first events were stored days ago, and the last ones come when the run is no longer remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeGuard

from topics.turn_record import TurnRecord
from turnmill.errors import InvalidRecord, Reason

MAX_RANGES: Final = 100  # ranges; a run with many holes may have many turns, and each of their records has the ranges

Ranges = Sequence[Sequence[int]]  # [first, last] seq of each, ascending, with a hole between two


class Verdict(Enum):
    """The relation of an incoming turn record to the stored version."""

    REPLACES = auto()
    KNOWN = auto()  # has nothing new
    LATE = auto()  # each has events that the other lacks


class Version(NamedTuple):
    """A record of a run: the events that it has, and its rank among records of the same events."""

    ranges: Ranges
    rank: tuple[int, Any]  # the number of events, then the criteria between records of the same events

    def beside(self, known: Version) -> Verdict:
        """Return the relation of this version to `known`, the stored one."""
        if self.rank > known.rank and self.contains(known):
            return Verdict.REPLACES
        return Verdict.KNOWN if known.contains(self) else Verdict.LATE

    def contains(self, other: Version) -> bool:
        """Return True if it has all events of `other`.

        If there were too many ranges, the last has unknown holes. Then a version contains the other if its ranges
        cover the other's, and it has more events: a run that goes on only ever fills its holes.
        """
        for a, b in other.ranges:
            if not any(first <= a and b <= last for first, last in self.ranges):
                return False
        exact = sum(last - first + 1 for first, last in self.ranges) == self.rank[0]
        return exact or self.rank[0] > other.rank[0] or self.ranges == other.ranges

    @property
    def headless(self) -> bool:
        """True if the run's first event is missing."""
        return not self.ranges or self.ranges[0][0] > 0


def held_ranges(events: int, missing: Ranges) -> list[list[int]]:
    """Return the ranges of a run of which `events` events arrived, and those in `missing` did not.

    At most MAX_RANGES: if there are more, the last includes all that follow, and their holes.
    """
    if not missing:
        return [[0, events - 1]] if events > 0 else []
    ranges: list[list[int]] = []
    at, left = 0, events
    for first, last in missing:
        if first > at and left > 0:
            behind = min(first, at + left)
            ranges.append([at, behind - 1])
            left -= behind - at
        at = last + 1
    if left > 0:
        ranges.append([at, at + left - 1])
    if len(ranges) > MAX_RANGES:
        ranges[MAX_RANGES - 1 :] = [[ranges[MAX_RANGES - 1][0], ranges[-1][1]]]
    return ranges


def ranges_of(record: TurnRecord) -> Ranges:
    """Return the ranges of a record. Raises InvalidRecord if it has none."""
    fields: Mapping[str, Any] = record  # from the wire: the declared type may be wrong
    stated = fields.get("ranges")
    if not _are_ranges(stated):
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"turn record whose ranges are {stated!r:.80}")
    return stated


def lacks_beginning(record: TurnRecord) -> bool:
    """Return True if the first event of the record's run was missing."""
    ranges = ranges_of(record)
    missing = (record["turn"] or {}).get("meta:missing")
    if ranges:
        return ranges[0][0] > 0
    return _are_ranges(missing) and bool(missing) and missing[0][0] == 0


def _are_ranges(value: Any) -> TypeGuard[Ranges]:
    before = -1
    for pair in value if isinstance(value, list) else [None]:
        if not isinstance(pair, list) or len(pair) != 2 or {*map(type, pair)} != {int}:
            return False
        if not before < pair[0] <= pair[1]:
            return False
        before = pair[1]
    return True
