"""The groups and buckets of usage reports, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import CTE, BigInteger, ColumnElement, and_, case, func, literal, null, select

from pipeline.stores.database.bounded_sum import BoundedSum
from pipeline.stores.usage.report import UsageQuery


def bucket_of(at: ColumnElement[Any], edges: Sequence[int]) -> ColumnElement[Any]:
    """Return the last edge that is not after `at`, as a search tree: a thousand edges cost ten comparisons."""
    if len(edges) == 1:
        return literal(edges[0], BigInteger)
    middle = len(edges) // 2
    below, above = bucket_of(at, edges[:middle]), bucket_of(at, edges[middle:])
    return case((at < literal(edges[middle], BigInteger), below), else_=above)


def with_other(kept: CTE, names: Sequence[str], query: UsageQuery) -> CTE:
    """Return the rows with a column `other`: 1, and no names, for groups that are not among the greatest `limit`."""
    groups = [kept.c[name] for name in names]
    order = func.coalesce(BoundedSum(kept.c["cost_nano_usd" if query.order == "cost_usd" else query.order]), 0)
    places = [part for group in groups for part in (group.is_(None), group)]
    named = select(*groups, literal(1).label("named")).group_by(*groups).order_by(order.desc(), *places)
    top = named.limit(query.limit).cte("top")
    same = [
        and_(func.coalesce(kept.c[name], "") == func.coalesce(top.c[name], ""), _null(kept, name) == _null(top, name))
        for name in names
    ]
    is_named = top.c.named.is_not(None)
    rest = [column for column in kept.c if column.name not in names]
    own = [case((is_named, kept.c[name]), else_=null()).label(name) for name in names]
    other = case((is_named, 0), else_=1).label("other")
    return select(other, *own, *rest).select_from(kept.outerjoin(top, and_(*same))).cte("placed")


def _null(table: CTE, name: str) -> ColumnElement[int]:
    return case((table.c[name].is_(None), 1), else_=0)
