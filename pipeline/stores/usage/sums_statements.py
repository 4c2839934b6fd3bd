"""The statements by which reports read sums: each is made once for its groups and filters.

Times and names are its parameters.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Column,
    ColumnElement,
    FromClause,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    func,
    or_,
    select,
    text,
    true,
)

from pipeline.stores.database.expressions import BoundedSum
from pipeline.stores.database.schema import SUMMED, usage, usage_changes, usage_names, usage_sums, usage_tags
from pipeline.stores.usage.tallies import QUARTER, TIMES, of_changes, signed, signed_time, value_of
from turnmill.labels import SINGLE

NAMED: Final = ("model", "provider", "tenant", "prompt", "origin", "service_tier", "purpose", *SINGLE)
TAG: Final = "tag"
COLUMNS: Final = {**{name: name for name in NAMED}, "agent": "agent_id"}
WANTED: Final = {
    "postgresql": 'SELECT * FROM unnest(:spans, :begins, :ends) AS period (span, "begin", "end")',
    "sqlite": "SELECT json_extract(value, '$[0]') AS span, json_extract(value, '$[1]') AS \"begin\", "
    "json_extract(value, '$[2]') AS \"end\" FROM json_each(:wanted)",
}


class Shape(NamedTuple):
    """The form of a statement: a database, groups, filters, and whether times are read, too."""

    dialect: str
    groups: tuple[str, ...]
    filters: tuple[tuple[str, bool], ...]  # a name, and whether the rows without this name count
    times: bool = True


def wanted_of(dialect: str, wanted: Iterable[tuple[int, int, int]]) -> dict[str, Any]:
    """Return the spans, each with the period in which its sums begin, as parameters."""
    all_of = [list(period) for period in wanted]
    if dialect == "sqlite":
        return {"wanted": all_of}
    return {name: [period[index] for period in all_of] for index, name in enumerate(("spans", "begins", "ends"))}


@cache
def sums_figures(shape: Shape, expired: bool | None = None) -> Select[Any]:  # noqa: FBT001  # a part of the key
    """Return a query of span, start, groups, sums, and the texts of histograms with commas between them."""
    wanted, sums, joined = _wanted_sums(shape.dialect, expired)
    source = with_tags(joined, shape.groups)
    keys = (wanted.span, sums.start, *_groups(shape, usage_names.c))
    added = [BoundedSum(sums[name]).label(name) for name in SUMMED]
    texts = [func.aggregate_strings(sums[time], ",").label(time) for time in TIMES if shape.times]
    query = select(*keys, *added, *texts).select_from(source)
    return query.where(*_conditions(shape, usage_names.c)).group_by(*keys)


@cache
def ends_of_sums(shape: Shape, expired: bool | None = None) -> Select[Any]:  # noqa: FBT001  # as above
    """Return a query of each wanted period that has sums: its span, its beginning, the first sum and the last."""
    wanted, sums, source = _wanted_sums(shape.dialect, expired)
    keys = (wanted.span, wanted.begin)
    query = select(*keys, func.min(sums.start).label("first"), func.max(sums.start).label("last")).select_from(source)
    return query.where(*_conditions(shape, usage_names.c)).group_by(*keys)


@cache
def rows_figures(shape: Shape) -> Select[Any]:
    """Return a query of quarter, groups, sums and times of the rows from `begin` on and before `end`."""
    at = usage.c.at
    keys = ((at - at % QUARTER).label("start"), *_groups(shape, usage_names.c))
    sums = {name: value_of(usage.c, name) for name in SUMMED}
    texts = [cast(usage.c[name] + 1, Text) for name in TIMES.values() if shape.times]
    named = with_tags(usage.join(usage_names, usage.c.names == usage_names.c.id), shape.groups)
    query = select(*keys, *_added(sums), *_listed(texts)).select_from(named)
    return query.where(at >= _time("begin"), at < _time("end"), *_named(shape, usage.c.names)).group_by(*keys)


@cache
def ends_of_rows(shape: Shape) -> Select[Any]:
    """Return a query of the first and the last time of the rows from `begin` on and before `end`; null without rows."""
    at = usage.c.at
    conditions = (at >= _time("begin"), at < _time("end"), *_named(shape, usage.c.names))
    return select(func.min(at), func.max(at)).where(*conditions)


@cache
def changes_figures(shape: Shape) -> Select[Any]:
    """Return a query of the changes that are not in the sums yet: of live rows, and of expired ones."""
    at, gone = usage_changes.c.at, usage_changes.c.expired
    live = and_(~gone, at >= _time("live_begin"), at < _time("live_end"))
    expired = and_(gone, at >= _time("expired_begin"), at < _time("expired_end"))
    rows = of_changes(usage_changes, or_(live, expired), *_named(shape, usage_changes.c.names)).cte("changes")
    keys = ((rows.c.at - rows.c.at % QUARTER).label("start"), *_groups(shape, usage_names.c))
    texts = [signed_time(rows, name) for name in TIMES.values() if shape.times]
    query = select(*keys, *_added({name: signed(rows, name) for name in SUMMED}), *_listed(texts))
    named = with_tags(rows.join(usage_names, rows.c.names == usage_names.c.id), shape.groups)
    return query.select_from(named).group_by(*keys)


def _wanted_sums(dialect: str, expired: bool | None) -> tuple[Any, Any, FromClause]:  # noqa: FBT001  # as above
    """Return the columns of the wanted periods, those of the sums, and both joined, with their names.

    Each wanted period and name is a look-up of the primary key. Neither database can know how few these are, and
    might scan all sums instead: an OFFSET of the inner query prevents that on Postgres, and an id of names that is not
    a plain column prevents it on SQLite.
    """
    made = text(WANTED[dialect])
    if dialect == "sqlite":
        made = made.bindparams(bindparam("wanted", type_=JSON()))
    else:
        made = made.bindparams(*(bindparam(name, type_=ARRAY(BigInteger)) for name in ("spans", "begins", "ends")))
    wanted = made.columns(*(Column(name, BigInteger) for name in ("span", "begin", "end"))).subquery("wanted")
    sums = usage_sums.c
    its_own = [sums.span == wanted.c.span, sums.start >= wanted.c.begin, sums.start < wanted.c.end]
    if expired is not None:
        its_own.append(sums.expired if expired else ~sums.expired)
    both = wanted.join(usage_names, true())
    if dialect == "sqlite":
        return wanted.c, sums, both.join(usage_sums, and_(sums.names == usage_names.c.id + 0, *its_own))
    its_own.append(sums.names == usage_names.c.id)
    inner = select(usage_sums).where(*its_own).correlate(wanted, usage_names).offset(0).lateral("sums")
    return wanted.c, inner.c, both.join(inner, true())


def _groups(shape: Shape, columns: Any) -> list[ColumnElement[Any]]:
    return [usage_tags.c.tag if name == TAG else columns[COLUMNS[name]] for name in shape.groups]


def with_tags(source: Any, groups: Collection[str]) -> Any:
    """Return a source of rows with their names; grouped by tag, a row counts under each of its tags."""
    tags = usage_tags.c.names == usage_names.c.id
    return source.outerjoin(usage_tags, tags) if TAG in groups else source


def _named(shape: Shape, names: ColumnElement[int]) -> list[ColumnElement[bool]]:
    """Return the filters of rows by their names: these are few, and an index of rows begins with them."""
    if not shape.filters:
        return []
    return [names.in_(select(usage_names.c.id).where(*_conditions(shape, usage_names.c)))]


def _conditions(shape: Shape, columns: Any) -> Iterable[ColumnElement[bool]]:
    for name, without in shape.filters:
        wanted: Any = bindparam(f"of_{name}", expanding=True)
        if name == TAG:
            yield columns.id.in_(select(usage_tags.c.names).where(usage_tags.c.tag.in_(wanted)))
            continue
        column = columns[COLUMNS[name]]
        yield (func.coalesce(column, "") if without else column).in_(wanted)


def _time(name: str) -> ColumnElement[int]:
    return bindparam(name, type_=BigInteger)


def _added(sums: Mapping[str, ColumnElement[Any]]) -> list[ColumnElement[Any]]:
    return [func.coalesce(BoundedSum(column), 0).label(name) for name, column in sums.items()]


def _listed(texts: Iterable[ColumnElement[str]]) -> list[ColumnElement[str]]:
    return [func.aggregate_strings(column, ",") for column in texts]
