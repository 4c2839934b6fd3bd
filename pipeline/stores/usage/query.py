"""Usage reports in SQL: the same statement for both databases.

Percentiles are by nearest rank, as in `percentile_disc`: the smallest value that so many per cent do not exceed. They
are computed with window functions, which both databases have, and which sort on disk if memory does not suffice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import CTE, BigInteger, ColumnElement, Select, and_, case, func, literal, null, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.observability.metrics import UNKNOWN
from pipeline.stores.costs.prices import UNPRICED
from pipeline.stores.database.expressions import BoundedSum
from pipeline.stores.database.keys import NO_TENANT
from pipeline.stores.database.schema import price_sources, threads, turns, usage, usage_names, usage_tags
from pipeline.stores.database.sending import certain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.usage import plan as usage_plan
from pipeline.stores.usage import sums as usage_sums
from pipeline.stores.usage import sums_query as usage_sums_query
from pipeline.stores.usage.feedback import with_feedback
from pipeline.stores.usage.report import SUMMED, Figures, Percentiles, UsageQuery, UsageReport, UsageRow
from pipeline.stores.usage.sums_query import MAX_UNPRICED, PERCENTS
from pipeline.stores.usage.sums_statements import COLUMNS, TAG, with_tags
from pipeline.stores.usage.tallies import no_price, value_of
from pipeline.stores.usage.time_buckets import edges as bucket_edges
from pipeline.turns.column_text import column_text
from turnmill.errors import CallerError
from turnmill.limits import USAGE_ROWS

GROUPS: Final[dict[str, ColumnElement[Any]]] = {
    **{name: usage_names.c[column] for name, column in COLUMNS.items()},
    TAG: usage_tags.c.tag,
    "thread": threads.c.thread_id,
    "finish_reason": usage.c.finish_reason,
}
TIMES: Final = ("ttft_ms", "duration_ms")
NO_PRICE: Final = no_price(usage.c)
MAX_EXPLAINED: Final = 100_000  # rows, the newest of a report, whose reasons for having no price are counted


async def usage_report(store: ThreadStore, query: UsageQuery) -> UsageReport:
    """Return tokens, cost and times of the stored turns. Raises CallerError for too many buckets."""
    async with store.snapshot() as connection:
        if "thread" in query.where:
            await certain(connection)
        found = await report(connection, query)
        if not found.total.unpriced:
            return found
        reasons = (await connection.execute(unpriced_reasons(query))).all()
        return replace(found, unpriced_reasons={source.removeprefix(UNPRICED): int(n) for source, n in reasons})


async def cost_since(store: ThreadStore, since: int) -> int:
    """Return the known cost of all responses from `since` (epoch ms) on, in 10⁻⁹ US dollars."""
    async with store.snapshot() as connection:
        return (await report(connection, UsageQuery(start=since))).total.cost_nano_usd


async def report(connection: AsyncConnection, query: UsageQuery) -> UsageReport:
    """Return the report of a query, from sums where they can answer it. Raises CallerError for too many buckets."""
    since = await usage_sums.since(connection) if usage_plan.fits(query) else usage_sums.NONE
    summed = since != usage_sums.NONE
    edges: Sequence[int] = ()
    if query.bucket is not None:
        if summed:
            first, last = await usage_sums_query.first_and_last(connection, query, since)
        else:
            first, last = (await connection.execute(first_and_last(query))).one()
        edges = [] if first is None or last is None else bucket_edges(query.bucket, first, last, query.tz)
        if len(edges) * (query.limit if query.group_by else 1) > USAGE_ROWS:
            raise CallerError(f"that might be over {USAGE_ROWS:,} rows: ask for fewer groups, or larger buckets")
    nothing = query.bucket is not None and not edges
    models: Iterable[Sequence[Any]]
    if summed and not nothing and usage_plan.fits(query, edges):
        found, total = await usage_sums_query.rows_of(connection, query, since, edges)
        models = await usage_sums_query.unpriced_models(connection, query, since) if total.unpriced else []
    else:
        total = (await _rows(connection, replace(query, group_by=(), bucket=None), ()))[0].figures
        found = [] if nothing else list(await _rows(connection, query, edges))
        models = (await connection.execute(unpriced_models(query))).all() if total.unpriced else []
    rows = found if query.group_by or query.bucket is not None else []
    if query.feedback:
        groups, conditions = [GROUPS[name] for name in query.group_by], _conditions(query)
        rows, total = await with_feedback(connection, query, rows, total, edges, groups, conditions)
    return UsageReport(query, tuple(sorted_rows(rows, query)), total, {model or UNKNOWN: int(n) for model, n in models})


async def _rows(connection: AsyncConnection, query: UsageQuery, edges: Sequence[int]) -> Sequence[UsageRow]:
    result = await connection.execute(usage_figures(query, edges))
    return [read_row(row, query) for row in result.mappings()]


def usage_figures(query: UsageQuery, edges: Sequence[int]) -> Select[Any]:
    """Return a query of rows for `read_row`. `edges`: those of the query's buckets, empty without buckets."""
    kept = _kept(query, edges)
    names = [f"group_{number}" for number in range(len(query.group_by))]
    placed = _with_other(kept, names, query) if names else kept
    keys = [name for name in ("bucket", "other", *names) if name in placed.c]
    group = [placed.c[key] for key in keys]
    sums = [func.coalesce(BoundedSum(placed.c[name]), 0).label(name) for name in SUMMED]
    summed = select(*group, *sums).group_by(*group).cte("summed")
    ranked = _ranked(placed, keys)  # of times alone: rows of all figures would be sorted for each
    of_group = [ranked.c[key] for key in keys]
    percentiles = [_percentile(ranked, name, percent) for name in TIMES for percent in PERCENTS]
    timed = select(*of_group, *percentiles).group_by(*of_group).cte("timed")
    return select(*summed.c, *list(timed.c)[len(keys) :]).join_from(summed, timed, _same(summed, timed, keys))


def read_row(row: Mapping[str, Any], query: UsageQuery) -> UsageRow:
    """Return the UsageRow of a row of `usage_figures`."""
    figures: dict[str, Any] = {name: int(row[name]) for name in SUMMED}
    figures |= {name: Percentiles(*(row[f"{name}_p{percent}"] for percent in PERCENTS)) for name in TIMES}
    return UsageRow(
        bucket=row.get("bucket"),
        group={name: row[f"group_{number}"] for number, name in enumerate(query.group_by)},
        other=bool(row.get("other")),
        figures=Figures(**figures),
    )


def sorted_rows(rows: Iterable[UsageRow], query: UsageQuery) -> list[UsageRow]:
    """Return the rows sorted by time, then the greatest first, `other` last; equal ones by name."""
    order = "cost_nano_usd" if query.order == "cost_usd" else query.order

    def key(row: UsageRow) -> Any:
        names = [(name is None, name or "") for name in row.group.values()]
        return row.bucket or 0, row.other, -getattr(row.figures, order), names

    return sorted(rows, key=key)


def first_and_last(query: UsageQuery) -> Select[Any]:
    """Return a query of a single row: the first and the last time that the query includes, null without any."""
    return select(func.min(usage.c.at), func.max(usage.c.at)).where(*_conditions(query))


def unpriced_models(query: UsageQuery) -> Select[Any]:
    """Return a query of model and the number of its responses without a price."""
    count = func.count().label("responses")
    model = usage_names.c.model
    counts = select(model, count).join_from(usage, usage_names, usage.c.names == usage_names.c.id)
    return counts.where(NO_PRICE, *_conditions(query)).group_by(model).order_by(count.desc(), model).limit(MAX_UNPRICED)


def unpriced_reasons(query: UsageQuery) -> Select[Any]:
    """Return a query of reasons, after UNPRICED, with the number of their responses among the newest MAX_EXPLAINED."""
    newest = select(usage.c.price_source, NO_PRICE.label("unpriced")).where(*_conditions(query))
    rows = newest.order_by(usage.c.at.desc()).limit(MAX_EXPLAINED).cte("newest")
    count, source = func.count().label("responses"), price_sources.c.source
    counts = select(source, count).join_from(rows, price_sources, rows.c.price_source == price_sources.c.id)
    counts = counts.where(rows.c.unpriced, source.startswith(UNPRICED, autoescape=True))
    return counts.group_by(source).order_by(count.desc(), source).limit(MAX_UNPRICED)


def _conditions(query: UsageQuery) -> list[ColumnElement[bool]]:
    wanted: list[ColumnElement[bool]]
    wanted = [_one_of(name, values) for name, values in query.where.items()]
    if query.start is not None:
        wanted.append(usage.c.at >= query.start)
    if query.end is not None:
        wanted.append(usage.c.at < query.end)
    return wanted


def _one_of(name: str, values: Sequence[str]) -> ColumnElement[bool]:
    texts = [column_text(value) for value in values]
    if name == "thread":  # of any tenant
        mine = select(turns.c.id).join(threads, turns.c.thread == threads.c.id).where(threads.c.thread_id.in_(texts))
        return usage.c.turn.in_(mine)
    if name == TAG:
        return usage.c.names.in_(select(usage_tags.c.names).where(usage_tags.c.tag.in_(texts)))
    if name == "finish_reason":
        return usage.c.finish_reason.in_(texts)
    column = func.coalesce(usage_names.c.tenant, "") if NO_TENANT in values and name == "tenant" else GROUPS[name]
    return usage.c.names.in_(select(usage_names.c.id).where(column.in_(texts)))


def _kept(query: UsageQuery, edges: Sequence[int]) -> CTE:
    sums = [value_of(usage.c, name).label(name) for name in SUMMED]
    times = [usage.c[name] for name in TIMES]
    groups = [GROUPS[name].label(f"group_{number}") for number, name in enumerate(query.group_by)]
    bucket = [_bucket_of(usage.c.at, edges).label("bucket")] if edges else []
    source = with_tags(usage.join(usage_names, usage.c.names == usage_names.c.id), query.group_by)
    if "thread" in query.group_by:
        source = source.join(threads, usage.c.thread == threads.c.id)
    rows = select(*bucket, *groups, *sums, *times).select_from(source)
    return rows.where(*_conditions(query)).cte("kept")


def _ranked(placed: CTE, keys: Sequence[str]) -> CTE:
    """Return the rows with each time's rank in its group, and the group's number of times."""
    group = [placed.c[key] for key in keys]
    windows = []
    for name in TIMES:
        value = placed.c[name]
        rank = func.row_number().over(partition_by=[*group, value.is_(None)], order_by=value)
        windows += [rank.label(f"{name}_place"), func.count(value).over(partition_by=group).label(f"{name}_count")]
    return select(*group, *(placed.c[name] for name in TIMES), *windows).cte("ranked")


def _percentile(ranked: CTE, name: str, percent: int) -> ColumnElement[Any]:
    nearest = (ranked.c[f"{name}_count"] * percent + 99) // 100
    at_its_place = and_(ranked.c[name].is_not(None), ranked.c[f"{name}_place"] == nearest)
    return func.max(case((at_its_place, ranked.c[name]))).label(f"{name}_p{percent}")


def _bucket_of(at: ColumnElement[Any], edges: Sequence[int]) -> ColumnElement[Any]:
    """Return the last edge that is not after `at`, as a search tree: a thousand edges cost ten comparisons."""
    if len(edges) == 1:
        return literal(edges[0], BigInteger)
    middle = len(edges) // 2
    below, above = _bucket_of(at, edges[:middle]), _bucket_of(at, edges[middle:])
    return case((at < literal(edges[middle], BigInteger), below), else_=above)


def _with_other(kept: CTE, names: Sequence[str], query: UsageQuery) -> CTE:
    """Return the rows with a column `other`: 1, and no names, for groups that are not among the greatest `limit`."""
    groups = [kept.c[name] for name in names]
    order = func.coalesce(BoundedSum(kept.c["cost_nano_usd" if query.order == "cost_usd" else query.order]), 0)
    places = [part for group in groups for part in (group.is_(None), group)]
    named = select(*groups, literal(1).label("named")).group_by(*groups).order_by(order.desc(), *places)
    top = named.limit(query.limit).cte("top")
    is_named = top.c.named.is_not(None)
    rest = [column for column in kept.c if column.name not in names]
    named_groups = [case((is_named, kept.c[name]), else_=null()).label(name) for name in names]
    other = case((is_named, 0), else_=1).label("other")
    return select(other, *named_groups, *rest).select_from(kept.outerjoin(top, _same(kept, top, names))).cte("placed")


def _same(left: CTE, right: CTE, keys: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition that these columns are equal in both, or null in both; it can be hashed."""
    same: list[ColumnElement[bool]] = [true()]
    for a, b in ((left.c[key], right.c[key]) for key in keys):
        null_as = "" if a.name.startswith("group_") else 0
        same += [func.coalesce(a, null_as) == func.coalesce(b, null_as), a.is_(None) == b.is_(None)]
    return and_(*same)
