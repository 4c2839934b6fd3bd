"""Which part of a report is read from sums, and which from rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pipeline.stores.usage_report import UsageQuery
from pipeline.stores.usage_tallies import QUARTER, SPANS, WEEK

GROUPS: Final = frozenset({"model", "provider", "agent", "tenant"})  # that sums tell apart
SMALL: Final = frozenset({"minute"})  # buckets that no sum fits into
LAST: Final = 2**62 // WEEK * WEEK  # behind all times


class Piece(NamedTuple):
    """The sums of one span, in ms, that begin from `begin` on and before `end`."""

    span: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is added up: `live` sums; sums of `expired` turns; changes of live rows within `noted`, those of expired
    turns within `whole`; rows within each of `rows`. Times in epoch ms, the end of each excluded.
    """

    live: tuple[Piece, ...]
    expired: tuple[Piece, ...]
    noted: tuple[int, int]
    whole: tuple[int, int]
    rows: tuple[tuple[int, int], ...]


def fits(query: UsageQuery, edges: Sequence[int] = ()) -> bool:
    """Whether sums can answer a query, with these edges of its buckets."""
    names = {*query.group_by, *query.where}
    return names <= GROUPS and query.bucket not in SMALL and all(edge % QUARTER == 0 for edge in edges[1:])


def plan(query: UsageQuery, since: int, edges: Sequence[int] = ()) -> Plan:
    """Where to read a query that sums can answer. The sums hold all rows from `since` on."""
    start, end = query.start or 0, LAST if query.end is None else query.end
    begin, stop = -(-start // QUARTER) * QUARTER, end // QUARTER * QUARTER
    spans = tuple(span for span in SPANS if all(edge % span == 0 for edge in edges[1:]))
    first = max(begin, since)
    if first >= stop:
        first = stop = end
    rows = tuple(part for part in ((start, first), (stop, end)) if part[0] < part[1])
    whole = begin, end // QUARTER * QUARTER
    return Plan(pieces(first, stop, spans), pieces(*whole, spans), (first, stop), whole, rows)


def pieces(begin: int, end: int, spans: Sequence[int] = SPANS) -> tuple[Piece, ...]:
    """The fewest sums of these spans that hold the time from `begin` to `end`; both are multiples of the first."""
    if begin >= end:
        return ()
    *smaller, span = spans
    if not smaller:
        return (Piece(span, begin, end),)
    first, last = -(-begin // span) * span, end // span * span
    if first >= last:
        return pieces(begin, end, smaller)
    return (*pieces(begin, first, smaller), Piece(span, first, last), *pieces(last, end, smaller))
