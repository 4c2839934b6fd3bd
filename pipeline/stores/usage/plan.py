"""Which parts of a report are read from sums, and which from rows. Pure."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from pipeline.stores.usage.report import GROUPS as REPORTED
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.tallies import QUARTER, SPANS, WEEK

GROUPS: Final = frozenset(REPORTED) - {"thread", "finish_reason"}  # that sums distinguish
UNSUMMED: Final = frozenset({"minute"})  # buckets that are smaller than any sum
LAST: Final = 2**62 // WEEK * WEEK  # after all times


class Piece(NamedTuple):
    """The sums of a span, in ms, that begin from `begin` on and before `end`; `sign` -1: they are subtracted."""

    span: int
    begin: int
    end: int
    sign: int = 1


class Part(NamedTuple):
    """The sums of a piece that count alike; `counts`: a bucket's beginning (None without buckets) -> their factor."""

    begin: int
    end: int
    counts: Mapping[int | None, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """The sums and rows that are added up.

    `live`: the period of sums of stored turns; `expired`: that of sums of expired turns; changes count within these;
    `rows`: periods that are read from rows. Times in epoch ms, the end of each excluded.
    """

    live: tuple[int, int]
    expired: tuple[int, int]
    rows: tuple[tuple[int, int], ...]

    @property
    def sums(self) -> tuple[tuple[bool | None, int, int], ...]:
        """The periods of sums to read: (of expired turns, None for all; begin; end)."""
        if self.live == self.expired:
            return ((None, *self.live),)
        return ((False, *self.live), (True, *self.expired))


def fits(query: UsageQuery, edges: Sequence[int] = ()) -> bool:
    """Return True if sums can answer a query whose buckets have these edges."""
    names = {*query.group_by, *query.where}
    return names <= GROUPS and query.bucket not in UNSUMMED and all(edge % QUARTER == 0 for edge in edges[1:])


def plan(query: UsageQuery, since: int) -> Plan:
    """Return where to read a query that sums can answer. `since`: from when on the sums include all rows."""
    start, end = query.start or 0, LAST if query.end is None else query.end
    begin, stop = -(-start // QUARTER) * QUARTER, end // QUARTER * QUARTER
    first = max(begin, since)
    if first >= stop:
        first = stop = end
    rows = tuple(part for part in ((start, first), (stop, end)) if part[0] < part[1])
    return Plan((first, stop), (begin, end // QUARTER * QUARTER), rows)


def pieces(begin: int, end: int, *, only_added: bool = False) -> tuple[Piece, ...]:
    """Return few sums that add up to the time from `begin` to `end`, which are multiples of QUARTER.

    The largest span covers the time up to its edges nearest to `begin` and `end`. Each smaller span corrects the
    difference up to its own nearest edges: it adds the sums that are missing, and subtracts those that are too many.
    With `only_added` each span stays within the time.
    """
    chosen: list[Piece] = []
    inner: tuple[int, int] | None = None
    for span in reversed(SPANS):
        if only_added:
            low, high = -(-begin // span) * span, end // span * span
        else:
            low, high = ((edge + span // 2) // span * span for edge in (begin, end))
        if low >= high or span * 4 > (end - begin) * 5:  # a much longer span would mostly be subtracted again
            continue
        if inner is None:
            chosen.append(Piece(span, low, high))
        else:
            chosen += [*_way(span, low, inner[0]), *_way(span, inner[1], high)]
        inner = low, high
    return tuple(chosen)


def _way(span: int, start: int, end: int) -> Iterable[Piece]:
    if start < end:
        yield Piece(span, start, end)
    elif end < start:
        yield Piece(span, end, start, -1)


def parts(begin: int, end: int, edges: Sequence[int], *, only_added: bool = False) -> dict[int, list[Part]]:
    """Return the sums needed for the buckets of a period, by span and in order, and where they count."""
    within = [(None, begin, end)] if not edges else _clipped(begin, end, edges)
    turns: defaultdict[int, defaultdict[int, list[tuple[int | None, int]]]] = defaultdict(lambda: defaultdict(list))
    for bucket, first, last in within:
        for piece in pieces(first, last, only_added=only_added):
            turns[piece.span][piece.begin].append((bucket, piece.sign))
            turns[piece.span][piece.end].append((bucket, -piece.sign))
    return {span: _counted(of_span) for span, of_span in turns.items()}


def _clipped(begin: int, end: int, edges: Sequence[int]) -> Iterable[tuple[int | None, int, int]]:
    for first, last in pairwise([*edges, LAST]):
        low, high = max(first, begin), min(last, end)
        if low < high:
            yield first, low, high


def _counted(turns: Mapping[int, Sequence[tuple[int | None, int]]]) -> list[Part]:
    """Return the periods between times at which sums begin or end to count, with the buckets that they count in."""
    counted = []
    counts: dict[int | None, int] = {}
    for begin, end in pairwise(sorted(turns)):
        counts = counts.copy()
        for bucket, sign in turns[begin]:
            counts[bucket] = counts.get(bucket, 0) + sign
        counts = {bucket: count for bucket, count in counts.items() if count}
        if counts:
            counted.append(Part(begin, end, counts))
    return counted


def joined(some: Iterable[Part]) -> list[tuple[int, int]]:
    """Return the periods of parts in order, adjacent ones joined."""
    periods: list[tuple[int, int]] = []
    for part in some:
        if periods and periods[-1][1] == part.begin:
            periods[-1] = periods[-1][0], part.end
        else:
            periods.append((part.begin, part.end))
    return periods


def part_of(some: Sequence[Part], start: int) -> Part:
    """Return the part that contains a sum."""
    return some[bisect_right(some, start, key=lambda part: part.begin) - 1]


def bucket_of(at: int, edges: Sequence[int]) -> int | None:
    """Return the beginning of the bucket that contains a time; None without buckets."""
    return edges[max(bisect_right(edges, at) - 1, 0)] if edges else None
