"""The SQL of threads and turns. Pure.

First the statements as SQLAlchemy expressions, which both databases take; then those that each batch of turns is
written with, as the drivers take them, for any number of rows.

On Postgres the latter join an array with a table by the table's index, and `certain` makes the planner do so: with the
statistics of an empty table, which a new database has for its first minutes, it would scan the whole table. The same
applies to reads of a few threads.
"""

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
    bindparam,
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

from pipeline.stores.database.expressions import BoundedSum, row_one_of
from pipeline.stores.database.ids import INSERT
from pipeline.stores.database.keys import exact_name, id_and_tenant
from pipeline.stores.database.schema import links, threads, turn_requests, turns, usage, usage_names
from pipeline.stores.database.sending import Call, all_null, as_bound, as_driven
from pipeline.stores.threads.rows import AGENT, COMPLETE, FACTS, ROLE_BITS, ThreadRow, TurnKey
from topics import json_text
from topics.thread_key import ThreadKey

ORDER: Final = (turns.c.started_at, turns.c.role, turns.c.run_id, turns.c.ordinal, turns.c.turn_id)
NAME: Final = (threads.c.thread_id, threads.c.tenant, threads.c.name)  # what `keys.thread_of` takes
ADD: Final = {table: insert(table) for table in (links, usage, turn_requests)}


def is_thread(key: ThreadKey) -> ColumnElement[bool]:
    """Return the condition of a thread's row of `threads`."""
    thread_id, tenant = id_and_tenant(key)
    return and_(threads.c.thread_id == thread_id, threads.c.tenant == tenant)


def among(keys: Iterable[ThreadKey]) -> ColumnElement[bool]:
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


def latest_values(dialect: str, thread: int, names: Collection[str]) -> Call:
    """Set these columns of a thread by its newest turns; each reads few turns (`turns_in_time`)."""
    sql, parameters = _latest_values(dialect, tuple(names))
    return Call(sql, [thread if value is None else value for value in parameters])


@cache
def _latest_values(dialect: str, names: tuple[str, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return SQL, and its parameters with None for the thread. Building it takes as long as the rest of a late turn."""
    of_thread, real = turns.c.thread == threads.c.id, turns.c.role != FACTS

    def newest(column: ColumnElement[Any], *where: ColumnElement[bool]) -> ColumnElement[Any]:
        latest = [part.desc() for part in ORDER]
        return select(column).where(of_thread, *where).order_by(*latest).limit(1).scalar_subquery()

    first_prompt = select(turns.c.prompt).where(of_thread, turns.c.prompt.is_not(None)).order_by(*ORDER).limit(1)
    latest_usage = [*(part.desc() for part in ORDER), usage.c.position.desc()]
    models = select(usage_names.c.model).join(usage, usage.c.names == usage_names.c.id)
    models = models.join(turns, usage.c.turn == turns.c.id).where(of_thread).order_by(*latest_usage).limit(1)
    values = {
        "external_id": newest(turns.c.external_id, turns.c.external_id.is_not(None)),
        "title": newest(turns.c.title, turns.c.title.is_not(None)),
        "prompt": first_prompt.scalar_subquery(),
        "status": newest(turns.c.status, real),
        "asked": newest(turns.c.asked, real),
        "model": models.scalar_subquery(),
        "duration_ms": newest(turns.c.ended_at - turns.c.started_at, turns.c.role == AGENT),
    }
    wanted = {name: values[name] for name in names}
    return as_driven(update(threads).where(threads.c.id == bindparam("of_thread")).values(wanted), dialect)


def refresh_threads(ids: Collection[int]) -> Update:
    """Return an UPDATE that derives the sums and times of threads again from their turns and usage."""
    of_thread, real = turns.c.thread == threads.c.id, turns.c.role != FACTS

    def over_turns(aggregate: Any, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the aggregate over turns; over records of facts where a thread has no turn."""
        value = func.coalesce(aggregate(case((real, column))), aggregate(column), 0)
        return select(value).where(of_thread).scalar_subquery()

    def used(column: ColumnElement[Any]) -> Select[Any]:
        return select(column).select_from(usage.join(turns, usage.c.turn == turns.c.id)).where(of_thread)

    order = turns.c.started_at * (1 << ROLE_BITS) + turns.c.role
    values = {
        "turns": select(func.count()).select_from(turns).where(of_thread, real).scalar_subquery(),
        "total_tokens": used(func.coalesce(BoundedSum(usage.c.total_tokens), 0)).scalar_subquery(),
        "cost_nano_usd": used(BoundedSum(usage.c.cost_nano_usd)).scalar_subquery(),
        "created_at": over_turns(func.min, turns.c.started_at),
        "updated_at": over_turns(func.max, turns.c.ended_at),
        "newest": select(func.max(order)).where(of_thread).scalar_subquery(),
    }
    return update(threads).where(threads.c.id.in_(sorted(ids))).values(values)


def set_may_fork(ids: Collection[int]) -> Update:
    """Return an UPDATE that marks threads as such that may fork."""
    return update(threads).where(threads.c.id.in_(sorted(ids))).values(may_fork=True)


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


# The columns of a ThreadRow -> their types on Postgres.
COLUMNS: Final = ThreadRow._fields
TYPES: Final = {
    **dict.fromkeys(COLUMNS, "bigint"),
    **dict.fromkeys(("external_id", "title", "prompt", "model", "asked"), "text"),
    "status": "smallint",
    "may_fork": "boolean",
    "turns": "integer",
}
_ADD_THREADS: Final = {
    "postgresql": "INSERT INTO threads (thread_id, tenant, name) SELECT thread_id, tenant, CAST(name AS json) "
    "FROM unnest($1::text[], $2::text[], $3::text[]) AS given (thread_id, tenant, name) "
    "ON CONFLICT (thread_id, tenant) DO UPDATE SET name = threads.name WHERE false",
    "sqlite": "INSERT INTO threads (thread_id, tenant, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
}
_READ: Final = ", ".join("CAST(t.asked AS text)" if name == "asked" else f"t.{name}" for name in COLUMNS)
_GIVEN: Final = {name: f"CAST(given.{name} AS json)" if name == "asked" else f"given.{name}" for name in COLUMNS}
_ARRAYS: Final = ", ".join(f"${number}::{TYPES[name]}[]" for number, name in enumerate(COLUMNS, 1))
# ruff: noqa: S608  # the names in these statements are our own
_THREADS: Final = {
    "postgresql": (
        f"SELECT t.thread_id, t.tenant, {_READ} FROM unnest($1::text[], $2::text[]) AS given (thread_id, tenant) "
        'JOIN threads t ON t.thread_id = given.thread_id COLLATE "C" AND t.tenant = given.tenant COLLATE "C"'
    ),
    "sqlite": (
        f"SELECT t.thread_id, t.tenant, {_READ} FROM json_each(?) AS given CROSS JOIN threads t "
        "ON t.thread_id = json_extract(given.value, '$[0]') AND t.tenant = json_extract(given.value, '$[1]')"
    ),
}
_KNOWN: Final = {
    "postgresql": (
        "SELECT t.thread, t.turn_id, t.id, t.events, t.status, t.revision, t.digest "
        "FROM unnest($1::bigint[], $2::bytea[]) AS given (thread, turn_id) "
        "JOIN turns t ON t.thread = given.thread AND t.turn_id = given.turn_id"
    ),
    "sqlite": (
        "SELECT t.thread, t.turn_id, t.id, t.events, t.status, t.revision, t.digest "
        "FROM json_each(?) AS given CROSS JOIN turns t ON t.thread = json_extract(given.value, '$[0]') "
        "AND t.turn_id = from_hex(json_extract(given.value, '$[1]'))"
    ),
}
_PUT_THREADS: Final = {
    "postgresql": (
        f"UPDATE threads SET {', '.join(f'{name} = {_GIVEN[name]}' for name in COLUMNS[1:])} "
        f"FROM unnest({_ARRAYS}) AS given ({', '.join(COLUMNS)}) WHERE threads.id = given.id"
    ),
}


@cache
def _set_threads(names: tuple[str, ...]) -> str:
    """Return SQLite's UPDATE of a thread with values for these columns, and null in the others."""
    columns = ", ".join(f"{name} = {'?' if name in names else 'NULL'}" for name in COLUMNS[1:])
    return f"UPDATE threads SET {columns} WHERE id = ?"


def locks_all(dialect: str) -> bool:
    """Return True where a transaction that writes has the lock of all rows from its beginning."""
    return dialect == "sqlite"


def add_threads(dialect: str, keys: Collection[ThreadKey]) -> Call:
    """Add the missing rows of these threads, and lock all of them until the transaction ends."""
    # On Postgres the update that never happens locks an existing row. All writers lock in the same order, so they can't
    # deadlock; on SQLite there is a single writer.
    rows = dict[tuple[str, str], tuple[str, str, str | None]]()
    for key in keys:
        name, exact = id_and_tenant(key), exact_name(key)
        rows[name] = *name, None if exact is None else json_text.dumps(exact)
    return _of_rows(_ADD_THREADS, dialect, [rows[name] for name in sorted(rows)])


def threads_of(dialect: str, keys: Collection[ThreadKey]) -> Call:
    """Return a call that selects thread_id, tenant and the columns of a ThreadRow, of those threads that exist."""
    named = sorted({*map(id_and_tenant, keys)})
    if dialect == "postgresql":
        return Call(_THREADS[dialect], list(zip(*named, strict=True)))
    return Call(_THREADS[dialect], (json_text.dumps(named),))


def known_turns(dialect: str, keys: Collection[TurnKey], threads: Mapping[ThreadKey, ThreadRow]) -> Call:
    """Return a call that selects thread, turn_id, id and the parts of the rank, of those turns that exist."""
    placed = sorted((threads[key].id, turn_id) for key, turn_id in keys)
    if dialect == "postgresql":
        return Call(_KNOWN[dialect], list(zip(*placed, strict=True)))
    return Call(_KNOWN[dialect], (json_text.dumps([(thread, turn_id.hex()) for thread, turn_id in placed]),))


def put_threads(dialect: str, rows: Sequence[ThreadRow]) -> Call:
    """Write these rows of `threads`."""
    if dialect == "postgresql":
        return _of_rows(_PUT_THREADS, dialect, rows)
    ids, *columns = zip(*rows, strict=True)
    told = {name: column for name, column in zip(COLUMNS[1:], columns, strict=True) if not all_null(column)}
    return Call(_set_threads(tuple(told)), as_bound([*told.values(), ids]), many=True)


def add_names(dialect: str, table: Table, counts: Mapping[tuple[int, int], int]) -> Call:
    """Count turns: (name, thread) -> change of the number of turns that have the name; `table`: `Shared.links`."""
    return _of_rows(_add_names(table), dialect, sorted((*key, count) for key, count in counts.items()))


@cache
def _add_names(table: Table) -> dict[str, str]:
    columns = ", ".join(table.c.keys())
    added = f"ON CONFLICT ({table.c[0].name}, thread) DO UPDATE SET turns = {table}.turns + excluded.turns"
    return {
        "postgresql": f"INSERT INTO {table} ({columns}) SELECT {columns} "
        f"FROM unnest($1::bigint[], $2::bigint[], $3::integer[]) AS given ({columns}) {added}",
        "sqlite": f"INSERT INTO {table} ({columns}) VALUES (?, ?, ?) {added}",
    }


def _of_rows(statements: dict[str, str], dialect: str, rows: Sequence[Sequence[Any]]) -> Call:
    """Return the call for these rows: Postgres takes an array for each column, SQLite the rows."""
    if dialect == "postgresql":
        return Call(statements[dialect], [list(column) for column in zip(*rows, strict=True)])
    return Call(statements[dialect], rows, many=True)
