"""The SQL of threads and turns, as SQLAlchemy expressions that both databases take. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    CompoundSelect,
    Delete,
    Select,
    Table,
    Update,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    select,
    union_all,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Insert

from pipeline.stores.database.expressions import BoundedSum, RowOneOf, row_one_of
from pipeline.stores.database.ids import INSERT
from pipeline.stores.database.keys import id_and_tenant
from pipeline.stores.database.schema import (
    links,
    threads,
    turn_requests,
    turns,
    usage,
    usage_names,
)
from pipeline.stores.threads.rows import AGENT, COMPLETE, FACTS, ROLE_BITS
from topics.thread_key import ThreadKey

ORDER: Final = (turns.c.started_at, turns.c.role, turns.c.run_id, turns.c.ordinal, turns.c.turn_id)
NAME: Final = (threads.c.thread_id, threads.c.tenant, threads.c.name)  # what `keys.thread_of` takes
ADD: Final = {table: insert(table) for table in (links, usage, turn_requests)}


def is_thread(key: ThreadKey) -> ColumnElement[bool]:
    """Return the condition of a thread's row of `threads`."""
    thread_id, tenant = id_and_tenant(key)
    return and_(threads.c.thread_id == thread_id, threads.c.tenant == tenant)


def among(keys: Iterable[ThreadKey]) -> RowOneOf:
    """Return the condition of several threads' rows."""
    return row_one_of((threads.c.thread_id, threads.c.tenant), sorted(map(id_and_tenant, keys)))


def number_of(key: ThreadKey) -> Any:
    """Return a thread's integer, as a subquery."""
    return select(threads.c.id).where(is_thread(key)).scalar_subquery()


def delete_empty(ids: Collection[int]) -> Delete:
    """Return a DELETE of those of these threads that have no record."""
    return delete(threads).where(threads.c.id.in_(sorted(ids)), ~exists().where(turns.c.thread == threads.c.id))


def records_by_id(ids: Sequence[int]) -> Select[Any]:
    """Return a query of id and record."""
    return select(turns.c.id, turns.c.record).where(turns.c.id.in_(ids))


@cache
def put_turns(dialect: str) -> Insert:
    """Return an INSERT of rows of `turns`: an existing turn is replaced."""
    new = INSERT[dialect](turns)
    kept = ("id", "thread", "turn_id")
    values = {column.name: new.excluded[column.name] for column in turns.c if column.name not in kept}
    statement: Insert = new.on_conflict_do_update(index_elements=[turns.c.id], set_=values)
    return statement


def delete_children(table: Table, ids: Sequence[int]) -> Delete:
    """Return a DELETE of the rows of `table` that belong to these turns."""
    return delete(table).where(table.c.turn.in_(ids))


async def values_of_turns(
    connection: AsyncConnection, keys: Iterable[ThreadKey], _: str, *, column: Column[Any]
) -> set[int]:
    """Return the values of a column of a table that belongs to turns, of all turns of threads."""
    values = set[int]()
    for key in keys:
        mine = select(turns.c.id).where(turns.c.thread == number_of(key))
        values.update(await connection.scalars(select(column).where(column.table.c.turn.in_(mine)).distinct()))
    return values


async def delete_of_turns(
    connection: AsyncConnection, replaced: Mapping[int, int], *, column: Column[Any], table: Table
) -> set[int]:
    """Delete the rows of a table that belong to turns that are replaced; return the column's values in them."""
    ids = sorted(replaced)
    values = set(await connection.scalars(select(column).where(table.c.turn.in_(ids)).distinct()))
    await connection.execute(delete_children(table, ids))
    return values


def refresh_threads(ids: Collection[int]) -> Update:
    """Return an UPDATE that derives the rows of `threads` again from their turns and usage."""
    of_thread, real = turns.c.thread == threads.c.id, turns.c.role != FACTS

    def newest(column: ColumnElement[Any], *where: ColumnElement[bool]) -> ColumnElement[Any]:
        latest = [part.desc() for part in ORDER]
        return select(column).where(of_thread, *where).order_by(*latest).limit(1).scalar_subquery()

    def over_turns(aggregate: Any, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the aggregate over turns; over records of facts where a thread has no turn."""
        value = func.coalesce(aggregate(case((real, column))), aggregate(column), 0)
        return select(value).where(of_thread).scalar_subquery()

    first_prompt = select(turns.c.prompt).where(of_thread, turns.c.prompt.is_not(None)).order_by(*ORDER).limit(1)

    def used(column: ColumnElement[Any]) -> Select[Any]:
        return select(column).select_from(usage.join(turns, usage.c.turn == turns.c.id)).where(of_thread)

    latest_usage = [*(part.desc() for part in ORDER), usage.c.position.desc()]
    models = select(usage_names.c.model).join(usage, usage.c.names == usage_names.c.id)
    models = models.join(turns, usage.c.turn == turns.c.id).where(of_thread).order_by(*latest_usage).limit(1)
    order = turns.c.started_at * (1 << ROLE_BITS) + turns.c.role
    values = {
        "external_id": newest(turns.c.external_id, turns.c.external_id.is_not(None)),
        "title": newest(turns.c.title, turns.c.title.is_not(None)),
        "prompt": first_prompt.scalar_subquery(),
        "status": newest(turns.c.status, real),
        "asked": newest(turns.c.asked, real),
        "turns": select(func.count()).select_from(turns).where(of_thread, real).scalar_subquery(),
        "total_tokens": used(func.coalesce(BoundedSum(usage.c.total_tokens), 0)).scalar_subquery(),
        "cost_nano_usd": used(BoundedSum(usage.c.cost_nano_usd)).scalar_subquery(),
        "model": models.scalar_subquery(),
        "duration_ms": newest(turns.c.ended_at - turns.c.started_at, turns.c.role == AGENT),
        "created_at": over_turns(func.min, turns.c.started_at),
        "updated_at": over_turns(func.max, turns.c.ended_at),
        "newest": select(func.max(order)).where(of_thread).scalar_subquery(),
    }
    return update(threads).where(threads.c.id.in_(sorted(ids))).values(values)


def records(keys: Sequence[ThreadKey]) -> CompoundSelect[Any]:
    """Return a query of these threads' records, and of others with their links, also of other tenants' namesakes."""
    of_threads = select(turns.c.record).join(threads, turns.c.thread == threads.c.id).where(among(keys))
    sources = sorted({id_and_tenant(key)[0] for key in keys})
    linked = select(links.c.turn).where(links.c.source.in_(sources))
    others = select(turns.c.record).join(threads, turns.c.thread == threads.c.id)
    return union_all(of_threads, others.where(turns.c.id.in_(linked), ~among(keys)))


def has_turns(key: ThreadKey) -> Select[Any]:
    """Return a query of the id of any turn of this thread."""
    return select(turns.c.id).where(turns.c.thread == number_of(key)).limit(1)


def counts() -> Select[Any]:
    """Return a query of a single row: threads, turns, runs, interrupted. It reads all turns, once."""
    cut = and_(turns.c.role == 1, turns.c.status < COMPLETE)
    columns = func.count().filter(turns.c.role != FACTS).label("turns"), func.count().filter(cut).label("cut")
    runs = select(*columns).group_by(turns.c.thread, turns.c.run_id).subquery()
    sums = func.coalesce(func.sum(runs.c.turns), 0), func.count(), func.coalesce(func.sum(runs.c.cut), 0)
    return select(select(func.count()).select_from(threads).scalar_subquery(), *sums).select_from(runs)
