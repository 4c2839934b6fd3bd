"""Usage reports from sums, plus the rows at both ends of their period that fill no quarter of an hour.

Sums, pending changes, and rows are read in one snapshot, each by a cached statement, and added up here: a sum is added
to each bucket that it is a part of, or subtracted there. Percentiles are those of the summed histograms, within 2 % of
the nearest rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.bounded_sum import MAX_INTEGER
from pipeline.stores.usage import sums_statements as statements
from pipeline.stores.usage.added import Added, Key, Names, figures_of, named_rows
from pipeline.stores.usage.histogram import added
from pipeline.stores.usage.plan import Plan, bucket_of, joined, part_of, parts, pieces, plan
from pipeline.stores.usage.report import SUMMED, Figures, UsageQuery, UsageRow
from pipeline.stores.usage.sums_statements import Shape
from pipeline.stores.usage.tallies import SPANS, TIMES, times_in

MAX_UNPRICED: Final = 100  # models without a price that a report lists


async def rows_of(
    connection: AsyncConnection, query: UsageQuery, since: int, edges: Sequence[int]
) -> tuple[list[UsageRow], Figures]:
    """Return the rows of a query that sums can answer, in any order, and their total."""
    found = await _added(_Asked(connection, query), plan(query, since), edges)
    return named_rows(found, query), figures_of(found.values())


async def unpriced_models(connection: AsyncConnection, query: UsageQuery, since: int) -> list[tuple[str | None, int]]:
    """Return each model with the number of its responses without a price, most first."""
    by_model = UsageQuery(("model",), start=query.start, end=query.end, where=query.where)
    found = await _added(_Asked(connection, by_model, times=False), plan(query, since), ())
    place = SUMMED.index("unpriced")
    counts = [(model, one.sums[place]) for (_, (model,)), one in found.items() if one.sums[place] > 0]
    return sorted(counts, key=lambda one: (-one[1], one[0] is None, one[0] or ""))[:MAX_UNPRICED]


async def first_and_last(connection: AsyncConnection, query: UsageQuery, since: int) -> tuple[int | None, int | None]:
    """Return a time in the first bucket that has anything of a query, and one in the last; None if there is none."""
    asked, where = _Asked(connection, query, times=False), plan(query, since)
    times = [start async for start, _ in asked.changes(where)]
    times += [at for ends in await asked.ends_of_rows(where) for at in ends if at is not None]
    for expired, begin, end in where.sums:
        times += await _ends(asked, begin, end, expired=expired)
    return min(times, default=None), max(times, default=None)


Times = tuple[int, int, int]  # a span, and the period in which its sums begin


class Read(NamedTuple):
    """The figures of one group: `sums` in the order of SUMMED, `times` as text."""

    names: Names
    sums: Sequence[int]
    times: Sequence[str]


class _Asked:
    """Runs the statements of one query, on one connection; with `times` also for its histograms."""

    def __init__(self, connection: AsyncConnection, query: UsageQuery, *, times: bool = True) -> None:
        self._connection = connection
        filters = statements.filters_of(query.where)
        self._shape = Shape(connection.dialect.name, query.group_by, filters, times)
        self._names = statements.names_of(query.where)

    async def sums(self, wanted: Iterable[Times], *, expired: bool | None) -> AsyncIterator[tuple[int, int, Read]]:
        """Yield span, start and figures of each sum."""
        for row in await self._all(
            statements.sums_figures(self._shape, expired), statements.wanted_of(self._shape.dialect, wanted)
        ):
            yield row[0], row[1], self._read(row[2:])

    async def ends(self, wanted: Iterable[Times], *, expired: bool | None) -> Sequence[Any]:
        """Return rows as in `statements.ends_of_sums`."""
        return await self._all(
            statements.ends_of_sums(self._shape, expired), statements.wanted_of(self._shape.dialect, wanted)
        )

    async def ends_of_rows(self, plan: Plan) -> Sequence[Any]:
        """Return the first and the last time of each part that is read from rows."""
        statement = statements.ends_of_rows(self._shape)
        return [row for begin, end in plan.rows for row in await self._all(statement, {"begin": begin, "end": end})]

    async def rows(self, plan: Plan) -> AsyncIterator[tuple[int, Read]]:
        """Yield quarter of an hour and figures of the rows that are read one by one."""
        for begin, end in plan.rows:
            for row in await self._all(statements.rows_figures(self._shape), {"begin": begin, "end": end}):
                yield row[0], self._read(row[1:])

    async def changes(self, plan: Plan) -> AsyncIterator[tuple[int, Read]]:
        """Yield quarter of an hour and figures of changes."""
        for row in await self._all(statements.changes_figures(self._shape), statements.changes_of(plan)):
            yield row[0], self._read(row[1:])

    def _read(self, row: Sequence[Any]) -> Read:
        first = len(self._shape.groups)
        last = first + len(SUMMED)
        return Read(tuple(row[:first]), row[first:last], [text or "" for text in row[last:]])

    async def _all(self, statement: Any, values: Mapping[str, Any]) -> Sequence[Any]:
        return (await self._connection.execute(statement, {**values, **self._names})).all()


async def _added(asked: _Asked, plan: Plan, edges: Sequence[int]) -> dict[Key, Added]:
    found = await _sums(asked, plan, edges, only_added=False)
    if found is None:
        found = await _sums(asked, plan, edges, only_added=True) or {}
    for some in (asked.rows(plan), asked.changes(plan)):
        async for start, read in some:
            one = found.setdefault((bucket_of(start, edges), read.names), Added())
            one.add(read.sums)
            for name, text in zip(TIMES, read.times, strict=False):
                setattr(one, name, getattr(one, name) + times_in(text))
    return found


async def _sums(asked: _Asked, plan: Plan, edges: Sequence[int], *, only_added: bool) -> dict[Key, Added] | None:
    """Return the figures of sums; None if a sum that was capped at MAX_INTEGER would be subtracted."""
    found: dict[Key, Added] = {}
    texts: dict[tuple[Key, str, int], list[str]] = defaultdict(list)
    for expired, begin, end in plan.sums:
        wanted = parts(begin, end, edges, only_added=only_added)
        times = [(span, *time) for span, some in wanted.items() for time in joined(some)]
        async for span, start, read in asked.sums(times, expired=expired):
            if not only_added and MAX_INTEGER in read.sums:
                return None
            for bucket, sign in part_of(wanted[span], start).counts.items():
                key = bucket, read.names
                found.setdefault(key, Added()).add(read.sums, sign)
                for name, text in zip(TIMES, read.times, strict=False):
                    texts[key, name, sign].append(text)
    for (key, name, sign), some in texts.items():
        setattr(found[key], name, getattr(found[key], name) + sign * added(",".join(some).split(",")))
    return found


async def _ends(asked: _Asked, begin: int, end: int, *, expired: bool | None) -> list[int]:
    """Return the beginnings of the first and the last quarter of an hour that have sums; empty if none has."""
    wanted = [(piece.span, piece.begin, piece.end) for piece in pieces(begin, end, only_added=True)]
    found = await asked.ends(wanted, expired=expired)
    if not found:
        return []
    first, last = min(found, key=lambda one: one.first), max(found, key=lambda one: one.last)
    ends = []
    for size, at, name in ((first.span, first.first, "first"), (last.span, last.last, "last")):
        place = at
        for larger, span in pairwise(reversed(SPANS)):  # from a sum to the smaller ones that it consists of
            if larger <= size:
                (within,) = await asked.ends([(span, place, place + larger)], expired=expired)
                place = getattr(within, name)
        ends.append(place)
    return ends
