"""Statements as the drivers take them: each text is made once, and all rows of a table go together, as tuples.

SQLite's driver has a thread of its own, and each statement of SQLAlchemy switches to it and back three times: here all
statements whose results aren't needed in between go there together. Postgres takes rows as an array for each column,
which it unnests: the statement is planned and called once, and its triggers run once.

A transaction is written once, with `await`, for both databases. On SQLite it can run as a whole in a single thread
(`in_one_go`), since switching takes far longer than the statements when the event loop is busy: there no `await`
suspends, so the coroutine runs to its end without an event loop.
"""

import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, cast

from sqlalchemy import Connection, CursorResult, Engine, Executable, ScalarResult, Table, Text, bindparam, func, select
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.dialects.sqlite import aiosqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Insert
from sqlalchemy.sql.elements import ClauseElement

from pipeline.stores.database.expressions import AS_ARRAYS, array_of
from topics import json_text

T = TypeVar("T")


class Direct:
    """The methods of an AsyncConnection that transactions use; none of them suspends the coroutine."""

    def __init__(self, connection: Connection) -> None:
        self.sync_connection = connection
        self.dialect: Dialect = connection.dialect

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        """See AsyncConnection."""
        return self.sync_connection.execute(statement, parameters)

    async def scalar(self, statement: Executable, parameters: Any = None) -> Any:
        """See AsyncConnection."""
        return self.sync_connection.scalar(statement, parameters)

    async def scalars(self, statement: Executable, parameters: Any = None) -> ScalarResult[Any]:
        """See AsyncConnection."""
        return self.sync_connection.scalars(statement, parameters)


def in_one_go(
    engine: Engine, options: Mapping[str, Any], work: Callable[[AsyncConnection], Coroutine[Any, Any, T]]
) -> T:
    """Run a transaction in the current thread, with these execution options of its connection; return its result."""
    with engine.execution_options(**options).begin() as connection:
        coroutine = work(cast("AsyncConnection", Direct(connection)))
        try:
            coroutine.send(None)
        except StopIteration as done:
            return cast("T", done.value)
        finally:
            coroutine.close()
        raise RuntimeError("a transaction on SQLite may wait for nothing but its statements")


DIALECTS: Final[dict[str, Dialect]] = {
    "sqlite": aiosqlite.dialect(),
    "postgresql": asyncpg.dialect(),  # type: ignore[no-untyped-call]  # as SQLAlchemy has it
}

KEYS_BATCH: Final = 1000  # in an IN list; drivers take some 32,000 parameters a statement


class Call(NamedTuple):
    """A statement with its parameters, or, with `many`, the parameters of each row."""

    sql: str
    parameters: Sequence[Any] = ()
    many: bool = False


CERTAIN: Final = Call(
    "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), "
    "set_config('enable_mergejoin', 'off', true)"
)


async def send(connection: AsyncConnection, calls: Sequence[Call]) -> list[list[Any]]:
    """Execute the calls in order; return the rows of each."""
    if connection.dialect.name == "postgresql":
        results = [await connection.exec_driver_sql(call.sql, tuple(call.parameters)) for call in calls]
        return [list(result) if result.returns_rows else [] for result in results]
    if isinstance(connection, Direct):
        return _execute(connection.sync_connection.connection.driver_connection, calls)
    if not connection.in_transaction():
        await connection.begin()
    driver = (await connection.get_raw_connection()).driver_connection
    # The only way to run code in the driver's thread other than a statement; SQLAlchemy does so for the isolation
    # level.
    rows: list[list[Any]] = await driver._execute(_execute, driver._conn, calls)  # type: ignore[union-attr]  # noqa: SLF001
    return rows


def _execute(connection: sqlite3.Connection, calls: Iterable[Call]) -> list[list[Any]]:
    cursor, results = connection.cursor(), []
    for sql, parameters, many in calls:
        results.append((cursor.executemany if many else cursor.execute)(sql, parameters).fetchall())
    cursor.close()
    return results


async def certain(connection: AsyncConnection) -> None:
    """Make the transaction's plans use indexes, whatever the statistics or a prepared statement's plan suggest."""
    if connection.dialect.name == "postgresql":
        await send(connection, [CERTAIN])


def portions(items: Sequence[T], size: int = KEYS_BATCH) -> Iterator[Sequence[T]]:
    """Yield the items in lists that fit into a statement."""
    return (items[start : start + size] for start in range(0, len(items), size))


def as_list(dialect: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return values as a single parameter: an array on Postgres, the text of a JSON list on SQLite."""
    return values if dialect == "postgresql" else json_text.dumps(values)


def as_bytes(dialect: str, values: Sequence[bytes]) -> Sequence[Any]:
    """Return values as a single parameter of the condition `of_bytes`; in JSON as hexadecimal digits."""
    return values if dialect == "postgresql" else json_text.dumps(list(map(bytes.hex, values)))


def of_bytes(dialect: str) -> str:
    """Return the condition that a column has one of some bytes, which are the statement's first parameter."""
    return "= ANY($1::bytea[])" if dialect == "postgresql" else "IN (SELECT from_hex(value) FROM json_each(?))"


def of_rows(dialect: str, statement: Insert, rows: Sequence[Mapping[str, Any]]) -> Call:
    """Return an INSERT of rows with the same keys, JSON as text. Pass the same statement each time: it is cached."""
    return of_columns(dialect, statement, {name: [row[name] for row in rows] for name in rows[0]})


def of_columns(dialect: str, statement: Insert, columns: Mapping[str, Sequence[Any]]) -> Call:
    """Return an INSERT as `of_rows`, of the values of each column. One that is null in all rows is left out."""
    columns = {name: column for name, column in columns.items() if not all_null(column)}
    if dialect == "postgresql":
        sql, names = _of_arrays(statement, tuple(columns))
        return Call(sql, [columns[name] for name in names])
    sql, names = _of_values(statement, tuple(columns))
    return Call(sql, as_bound(columns[name] for name in names), many=True)


def all_null(column: Sequence[Any]) -> bool:
    """Return True if a column of rows has no value."""
    return column[0] is None and column.count(None) == len(column)


def as_bound(columns: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return rows as sqlite3 binds them at once: for anything else it looks for an adapter, value by value."""
    return list(zip(*(_bound(column) for column in columns), strict=True))


_BOUND: Final[dict[type, Callable[[Any], Any]]] = {bytes: bytearray, bool: int}


def _bound(column: Sequence[Any]) -> Sequence[Any]:
    bound = _BOUND.get(type(column[0]))
    return column if bound is None else [None if value is None else bound(value) for value in column]


@cache
def _of_values(statement: Insert, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return SQL, and the columns in the order of its parameters."""
    compiled = _compiled(statement, "sqlite", column_keys=names)
    return str(compiled), _names(compiled)


@cache
def _of_arrays(statement: Insert, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return SQL, and the columns in the order of its parameters, for Postgres's arrays."""
    table = statement.table
    assert isinstance(table, Table)  # its declared type is wider
    kinds = {name: table.c[name].type for name in names}
    arrays = [bindparam(name, type_=array_of(kind)) for name, kind in kinds.items()]
    rows = func.unnest(*arrays).table_valued(*names).render_derived("given")
    columns = [
        rows.c[name] if isinstance(kind, (*AS_ARRAYS, Text)) else rows.c[name].cast(kind)
        for name, kind in kinds.items()
    ]
    compiled = _compiled(statement.from_select(names, select(*columns)), "postgresql")
    return str(compiled), _names(compiled)


def as_driven(statement: ClauseElement, dialect: str) -> tuple[str, tuple[Any, ...]]:
    """Return a statement's SQL, and the values of its parameters: None for those that the caller has to give."""
    compiled = _compiled(statement, dialect)
    return str(compiled), tuple(compiled.params[name] for name in _names(compiled))


def _compiled(statement: ClauseElement, dialect: str, **options: Any) -> SQLCompiler:
    compiled = statement.compile(dialect=DIALECTS[dialect], **options)
    assert isinstance(compiled, SQLCompiler)  # it is not DDL
    return compiled


def _names(compiled: SQLCompiler) -> tuple[str, ...]:
    return tuple(compiled.positiontup or ())
