"""Usage reports from sums, plus the rows at both ends of their period that fill no quarter of an hour.

Sums, pending changes, and rows are read in the same snapshot, each by a cached statement, and added up here: a sum is
added to each bucket that it is a part of, or subtracted there. Percentiles are those of the summed histograms, within
2 % of the nearest rank.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.expressions import MAX_INTEGER
from pipeline.stores.database.keys import NO_TENANT
from pipeline.stores.usage import sums_statements as statements
from pipeline.stores.usage.histogram import added, percentiles
from pipeline.stores.usage.plan import Plan, bucket_of, joined, part_of, parts, pieces, plan
from pipeline.stores.usage.report import SUMMED, Figures, Percentiles, UsageQuery, UsageRow
from pipeline.stores.usage.sums_statements import Shape
from pipeline.stores.usage.tallies import SPANS, TIMES, Tally, times_in
from pipeline.turns.column_text import column_text

PERCENTS: Final = (50, 95, 99)
MAX_UNPRICED: Final = 100  # models without a price that a report lists

Names = tuple[str | None, ...]
Key = tuple[int | None, Names]  # a bucket, and the names of a group


def figures_of(some: Iterable[Tally]) -> Figures:
    """Return the figures of all of these together."""
    total = Tally()
    for figure in some:
        total.join(figure)
    sums: dict[str, Any] = {name: min(value, MAX_INTEGER) for name, value in zip(SUMMED, total.sums, strict=True)}
    ttft, duration = (Percentiles(*percentiles(times, PERCENTS)) for times in (total.ttft, total.duration))
    return Figures(**sums, ttft_ms=ttft, duration_ms=duration)


def named_rows(figures: Mapping[Key, Tally], query: UsageQuery) -> list[UsageRow]:
    """Return a row for each of the greatest groups, and a row `other` for the rest, for each bucket."""
    held = {key: figure for key, figure in figures.items() if any(figure.sums)}
    named = _greatest(held, query)
    rest: dict[int | None, Tally] = {}
    rows = []
    for (bucket, names), figure in held.items():
        if names in named:
            group = dict(zip(query.group_by, names, strict=True))
            rows.append(UsageRow(bucket, group, other=False, figures=figures_of([figure])))
        else:
            rest.setdefault(bucket, Tally()).join(figure)
    for bucket, figure in rest.items():
        nobody: dict[str, str | None] = dict.fromkeys(query.group_by)
        rows.append(UsageRow(bucket, nobody, other=True, figures=figures_of([figure])))
    return rows


def _greatest(figures: Mapping[Key, Tally], query: UsageQuery) -> set[Names]:
    """Return the groups that have separate rows: those with most of the query's order; if equal, by name."""
    index = SUMMED.index("cost_nano_usd" if query.order == "cost_usd" else query.order)
    totals: dict[Names, int] = {}
    for (_, names), figure in figures.items():
        totals[names] = min(totals.get(names, 0) + figure.sums[index], MAX_INTEGER)
    if len(totals) <= query.limit:
        return set(totals)

    def order(names: Names) -> tuple[int, Sequence[tuple[bool, str]]]:
        return -totals[names], [(name is None, name or "") for name in names]

    return set(sorted(totals, key=order)[: query.limit])


async def rows_of(
    connection: AsyncConnection, query: UsageQuery, since: int, edges: Sequence[int]
) -> tuple[list[UsageRow], Figures]:
    """Return the rows of a query that sums can answer, in any order, and their total."""
    where = plan(query, since)
    figures = await _added(_Asked(connection, query), where, edges)
    whole = figures
    if statements.TAG in query.group_by:  # what has several tags is in several groups
        untagged = replace(query, group_by=tuple(name for name in query.group_by if name != statements.TAG))
        whole = await _added(_Asked(connection, untagged), where, edges)
    return named_rows(figures, query), figures_of(whole.values())


async def unpriced_models(connection: AsyncConnection, query: UsageQuery, since: int) -> list[tuple[str | None, int]]:
    """Return each model with the number of its responses without a price, most first."""
    by_model = UsageQuery(("model",), start=query.start, end=query.end, where=query.where)
    figures = await _added(_Asked(connection, by_model, times=False), plan(query, since), ())
    index = SUMMED.index("unpriced")
    counts = [(model, figure.sums[index]) for (_, (model,)), figure in figures.items() if figure.sums[index] > 0]
    return sorted(counts, key=lambda count: (-count[1], count[0] is None, count[0] or ""))[:MAX_UNPRICED]


async def first_and_last(connection: AsyncConnection, query: UsageQuery, since: int) -> tuple[int | None, int | None]:
    """Return a time in the first bucket that has anything of a query, and in the last; None if there is none."""
    asked, where = _Asked(connection, query, times=False), plan(query, since)
    times = [start async for start, _ in asked.changes(where)]
    times += [at for ends in await asked.ends_of_rows(where) for at in ends if at is not None]
    for expired, begin, end in where.sums:
        times += await _ends(asked, begin, end, expired=expired)
    return min(times, default=None), max(times, default=None)


Times = tuple[int, int, int]  # a span, and the period in which its sums begin


class Read(NamedTuple):
    """The figures of a group: `sums` in the order of SUMMED, `times` as text."""

    names: Names
    sums: Sequence[int]
    times: Sequence[str]


class _Asked:
    """Runs the statements of a query, on a connection; with `times` also for its histograms."""

    def __init__(self, connection: AsyncConnection, query: UsageQuery, *, times: bool = True) -> None:
        self._connection = connection
        where = sorted(query.where.items())
        filters = tuple((name, name == "tenant" and NO_TENANT in values) for name, values in where)
        self._shape = Shape(connection.dialect.name, query.group_by, filters, times)
        self._names = {f"of_{name}": [column_text(value) for value in values] for name, values in where}

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
        """Yield quarter of an hour and figures of the rows that no sum includes."""
        for begin, end in plan.rows:
            for row in await self._all(statements.rows_figures(self._shape), {"begin": begin, "end": end}):
                yield row[0], self._read(row[1:])

    async def changes(self, plan: Plan) -> AsyncIterator[tuple[int, Read]]:
        """Yield quarter of an hour and figures of changes."""
        times = zip(("live_begin", "live_end", "expired_begin", "expired_end"), plan.live + plan.expired, strict=True)
        for row in await self._all(statements.changes_figures(self._shape), dict(times)):
            yield row[0], self._read(row[1:])

    def _read(self, row: Sequence[Any]) -> Read:
        first = len(self._shape.groups)
        last = first + len(SUMMED)
        return Read(tuple(row[:first]), row[first:last], [text or "" for text in row[last:]])

    async def _all(self, statement: Any, values: Mapping[str, Any]) -> Sequence[Any]:
        return (await self._connection.execute(statement, {**values, **self._names})).all()


async def _added(asked: _Asked, plan: Plan, edges: Sequence[int]) -> dict[Key, Tally]:
    figures = await _sums(asked, plan, edges, only_added=False)
    if figures is None:
        figures = await _sums(asked, plan, edges, only_added=True) or {}
    for some in (asked.rows(plan), asked.changes(plan)):
        async for start, read in some:
            figure = figures.setdefault((bucket_of(start, edges), read.names), Tally())
            figure.count(read.sums)
            for name, text in zip(TIMES, read.times, strict=False):
                setattr(figure, name, getattr(figure, name) + times_in(text))
    return figures


async def _sums(asked: _Asked, plan: Plan, edges: Sequence[int], *, only_added: bool) -> dict[Key, Tally] | None:
    """Return the figures of sums; None if a sum that was capped at MAX_INTEGER would be subtracted."""
    figures: dict[Key, Tally] = {}
    texts: dict[tuple[Key, str, int], list[str]] = defaultdict(list)
    for expired, begin, end in plan.sums:
        wanted = parts(begin, end, edges, only_added=only_added)
        times = [(span, *time) for span, some in wanted.items() for time in joined(some)]
        async for span, start, read in asked.sums(times, expired=expired):
            if not only_added and MAX_INTEGER in read.sums:
                return None
            for bucket, sign in part_of(wanted[span], start).counts.items():
                key = bucket, read.names
                figures.setdefault(key, Tally()).count(read.sums, sign)
                for name, text in zip(TIMES, read.times, strict=False):
                    texts[key, name, sign].append(text)
    for (key, name, sign), some in texts.items():
        setattr(figures[key], name, getattr(figures[key], name) + sign * added(",".join(some).split(",")))
    return figures


async def _ends(asked: _Asked, begin: int, end: int, *, expired: bool | None) -> list[int]:
    """Return the beginnings of the first and the last quarter of an hour that have sums; empty if none has."""
    wanted = [(piece.span, piece.begin, piece.end) for piece in pieces(begin, end, only_added=True)]
    periods = await asked.ends(wanted, expired=expired)
    if not periods:
        return []
    first, last = min(periods, key=lambda period: period.first), max(periods, key=lambda period: period.last)
    ends = []
    for size, at, name in ((first.span, first.first, "first"), (last.span, last.last, "last")):
        start = at
        for larger, span in pairwise(reversed(SPANS)):  # from a sum to the smaller ones that it consists of
            if larger <= size:
                (within,) = await asked.ends([(span, start, start + larger)], expired=expired)
                start = getattr(within, name)
        ends.append(start)
    return ends
