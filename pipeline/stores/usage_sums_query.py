"""Usage reports from sums, with the rows at the ends of their time that fill no quarter of an hour.

Sums, changes that no sum has taken up yet, and rows are parts of one statement: each with its names, its figures and
its times, as a histogram or as themselves. Percentiles are those of the histograms added up, within 2 % of the nearest
rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import CTE, ColumnElement, Select, Text, and_, cast, func, null, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.bounded_sum import MAX_INTEGER, BoundedSum
from pipeline.stores.histogram import Histogram, added, percentile
from pipeline.stores.keys import NO_TENANT
from pipeline.stores.schema import usage, usage_changes, usage_names, usage_sums
from pipeline.stores.usage_groups import bucket_of, with_other
from pipeline.stores.usage_plan import LAST, Piece, Plan, plan
from pipeline.stores.usage_report import SUMMED, Figures, Percentiles, UsageQuery, UsageRow
from pipeline.stores.usage_tallies import QUARTER, TIMES, of_changes, of_usage, signed, signed_time, times_in
from pipeline.turns.column_text import column_text

COLUMNS: Final = {"model": "model", "provider": "provider", "agent": "agent_id", "tenant": "tenant"}
PERCENTS: Final = (50, 95, 99)
NAMED: Final = 100  # models without a price that a report names
TEXTS: Final = tuple((time, kind) for time in TIMES for kind in ("sums", "rows"))
NO_TEXT: Final = cast(null(), Text)


@dataclass(frozen=True, slots=True)
class Summed:
    """One row of a report, with the histograms that its percentiles come from."""

    bucket: int | None
    group: dict[str, str | None]
    other: bool
    sums: dict[str, int]
    times: dict[str, Histogram]

    @property
    def row(self) -> UsageRow:
        """As the report has it."""
        return UsageRow(self.bucket, self.group, self.other, _figures(self.sums, self.times))


async def rows_of(
    connection: AsyncConnection, query: UsageQuery, since: int, edges: Sequence[int]
) -> tuple[list[UsageRow], Figures]:
    """The rows of a query that sums can answer, in any order, and their total."""
    found = await connection.execute(sums_figures(query, plan(query, since, edges), edges))
    rows = [_read(row, query) for row in found.mappings()]
    return [one.row for one in rows if any(one.sums.values())], _total(rows)


def sums_figures(query: UsageQuery, plan: Plan, edges: Sequence[int]) -> Select[Any]:
    """-> rows for `_read`."""
    kept = _kept(query, plan, edges)
    names = [f"group_{number}" for number in range(len(query.group_by))]
    placed = with_other(kept, names, query) if names else kept
    keys = [placed.c[name] for name in ("bucket", "other", *names) if name in placed.c]
    sums = [func.coalesce(BoundedSum(placed.c[name]), 0).label(name) for name in SUMMED]
    texts = [func.aggregate_strings(placed.c[f"{time}_{kind}"], ",").label(f"{time}_{kind}") for time, kind in TEXTS]
    return select(*keys, *sums, *texts).group_by(*keys)


def unpriced_models(query: UsageQuery, plan: Plan) -> Select[Any]:
    """-> model, number of its responses without a price."""
    kept = _kept(replace(query, group_by=("model",), bucket=None), plan, ())
    count = BoundedSum(kept.c.unpriced).label("responses")
    models = select(kept.c.group_0.label("model"), count).group_by(kept.c.group_0).having(count > 0)
    return models.order_by(count.desc(), kept.c.group_0).limit(NAMED)


async def first_and_last(connection: AsyncConnection, query: UsageQuery, since: int) -> tuple[int | None, int | None]:
    """A time in the first bucket that has anything of a query, and one in the last; None without any."""
    where = plan(query, since)
    times: list[int] = []
    for pieces, expired in ((where.live, False), (where.expired, True)):
        for piece in pieces:
            first, last = (await connection.execute(_ends(query, piece, expired=expired))).one()
            for start, end in () if first is None else ((first, min), (last, max)):
                times.append(await connection.scalar(_quarter(query, start, piece.span, end, expired=expired)) or start)
    for rows in _single(query, where):
        one = rows.cte("counted")
        times += [
            t for t in (await connection.execute(select(func.min(one.c.at), func.max(one.c.at)))).one() if t is not None
        ]
    return min(times, default=None), max(times, default=None)


def _ends(query: UsageQuery, piece: Piece, *, expired: bool) -> Select[Any]:
    start = usage_sums.c.start
    return select(func.min(start), func.max(start)).join(usage_names).where(*_of_sums(query, piece, expired=expired))


def _quarter(query: UsageQuery, start: int, span: int, end: Any, *, expired: bool) -> Select[Any]:
    place = usage_sums.c.start
    found = func.min(place) if end is min else func.max(place)
    piece = Piece(QUARTER, start, start + span)
    return select(found).join(usage_names).where(*_of_sums(query, piece, expired=expired))


def _kept(query: UsageQuery, plan: Plan, edges: Sequence[int]) -> CTE:
    """All that a report is made of, as parts of one shape."""
    if plan.live == plan.expired:
        parts = [_part_of_sums(query, piece, expired=None) for piece in plan.live]
    else:
        parts = [_part_of_sums(query, piece, expired=False) for piece in plan.live]
        parts += [_part_of_sums(query, piece, expired=True) for piece in plan.expired]
    for number, rows in enumerate(_single(query, plan)):
        parts.append(_part_of_rows(query, rows.cte(f"counted_{number}")))
    all_parts = union_all(*parts).cte("parts")
    if not edges:
        return all_parts
    return select(bucket_of(all_parts.c.at, edges).label("bucket"), *all_parts.c).cte("kept")


def _single(query: UsageQuery, plan: Plan) -> list[Select[Any]]:
    """Rows, and changes, that count one by one."""
    at = usage_changes.c.at
    live = and_(~usage_changes.c.expired, at >= plan.noted[0], at < plan.noted[1])
    expired = and_(usage_changes.c.expired, at >= plan.whole[0], at < plan.whole[1])
    changes = of_changes(usage_changes, or_(live, expired), *_conditions(query, usage_changes.c))
    rows = [_within(begin, end) for begin, end in plan.rows]
    return [changes, *(of_usage(*some, *_conditions(query, usage.c)) for some in rows)]


def _within(begin: int, end: int) -> list[ColumnElement[bool]]:
    return [usage.c.at >= begin] + ([usage.c.at < end] if end < LAST else [])


def _part_of_sums(query: UsageQuery, piece: Piece, *, expired: bool | None) -> Select[Any]:
    columns = usage_sums.c
    texts = [
        text.label(f"{time}_{kind}") for time in TIMES for kind, text in (("sums", columns[time]), ("rows", NO_TEXT))
    ]
    head = _head(query, columns.start, usage_names.c)
    query_ = select(*head, *(columns[name] for name in SUMMED), *texts).join(usage_names)
    return query_.where(*_of_sums(query, piece, expired=expired))


def _part_of_rows(query: UsageQuery, rows: CTE) -> Select[Any]:
    texts = [
        text.label(f"{time}_{kind}")
        for time, name in TIMES.items()
        for kind, text in (("sums", NO_TEXT), ("rows", signed_time(rows, name)))
    ]
    sums = [signed(rows, name).label(name) for name in SUMMED]
    return select(*_head(query, rows.c.at, rows.c), *sums, *texts)


def _head(query: UsageQuery, at: ColumnElement[int], names: Any) -> list[ColumnElement[Any]]:
    groups = (names[COLUMNS[name]].label(f"group_{number}") for number, name in enumerate(query.group_by))
    return [at.label("at"), *groups]


def _of_sums(query: UsageQuery, piece: Piece, *, expired: bool | None) -> list[ColumnElement[bool]]:
    columns = usage_sums.c
    wanted = [columns.span == piece.span, columns.start >= piece.begin, columns.start < piece.end]
    if expired is not None:
        wanted.append(columns.expired if expired else ~columns.expired)
    return [*wanted, *_conditions(query, usage_names.c)]


def _conditions(query: UsageQuery, columns: Any) -> Iterable[ColumnElement[bool]]:
    for name, values in query.where.items():
        column = columns[COLUMNS[name]]
        if name == "tenant" and NO_TENANT in values:
            column = func.coalesce(column, "")
        yield column.in_([column_text(value) for value in values])


def _read(row: Mapping[str, Any], query: UsageQuery) -> Summed:
    times = {}
    for time, name in TIMES.items():
        texts = row[f"{time}_sums"]
        times[name] = added(texts.split(",") if texts else ())
        times[name].update(times_in(row[f"{time}_rows"]))
    return Summed(
        bucket=row.get("bucket"),
        group={name: row[f"group_{number}"] for number, name in enumerate(query.group_by)},
        other=bool(row.get("other")),
        sums={name: int(row[name]) for name in SUMMED},
        times=times,
    )


def _total(rows: Iterable[Summed]) -> Figures:
    sums = dict.fromkeys(SUMMED, 0)
    times: dict[str, Histogram] = {name: Counter() for name in TIMES.values()}
    for row in rows:
        for name, value in row.sums.items():
            sums[name] = min(sums[name] + value, MAX_INTEGER)
        for name, histogram in row.times.items():
            times[name].update(histogram)
    return _figures(sums, times)


def _figures(sums: Mapping[str, int], times: Mapping[str, Histogram]) -> Figures:
    percentiles = {name: Percentiles(*(percentile(one, share) for share in PERCENTS)) for name, one in times.items()}
    return Figures(**sums, **percentiles)  # type: ignore[arg-type]  # the names are those of the fields
