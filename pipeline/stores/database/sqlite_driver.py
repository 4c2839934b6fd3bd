"""SQLite's driver for SQLAlchemy, with a single visit of the connection's thread for each statement.

aiosqlite runs each call of a cursor in another thread, and SQLAlchemy makes four of them for a statement: open,
execute, fetch, close. Each takes longer than most statements do.
"""

# ruff: noqa: SLF001  # what the classes of SQLAlchemy's other drivers use of each other, and of aiosqlite

import sqlite3
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import aiosqlite
from sqlalchemy.connectors.asyncio import AsyncAdapt_dbapi_connection, AsyncAdapt_dbapi_cursor
from sqlalchemy.dialects.sqlite.aiosqlite import AsyncAdapt_aiosqlite_connection, AsyncAdapt_aiosqlite_dbapi


def _visit(connection: sqlite3.Connection, sql: str, parameters: Any, *, many: bool) -> tuple[Any, int, Any, list[Any]]:
    """Execute a statement; return what its cursor says of it, and its rows."""
    cursor = connection.cursor()
    try:
        (cursor.executemany if many else cursor.execute)(sql, parameters)
        return cursor.description, cursor.rowcount, cursor.lastrowid, cursor.fetchall()
    finally:
        cursor.close()


class _Cursor(AsyncAdapt_dbapi_cursor):
    __slots__ = ("_told",)

    def __init__(self, adapt_connection: AsyncAdapt_dbapi_connection) -> None:
        self._adapt_connection = adapt_connection
        self._connection = adapt_connection._connection
        self._rows = deque()
        self._told: tuple[Any, int, Any] = None, -1, None

    @property
    def description(self) -> Any:
        return self._told[0]

    @property
    def rowcount(self) -> int:
        return self._told[1]

    @property
    def lastrowid(self) -> Any:
        return self._told[2]

    def close(self) -> None:
        self._rows.clear()

    async def _async_soft_close(self) -> None:
        pass  # there is nothing to close any more

    async def _execute_async(self, operation: Any, parameters: Any) -> None:
        await self._run(operation, () if parameters is None else parameters, many=False)

    async def _executemany_async(self, operation: Any, seq_of_parameters: Any) -> None:
        await self._run(operation, seq_of_parameters, many=True)

    async def _run(self, sql: str, parameters: Any, *, many: bool) -> None:
        async with self._adapt_connection._execute_mutex:
            driver: Any = self._connection
            *told, rows = await driver._execute(_visit, driver._conn, sql, parameters, many=many)
            self._told, self._rows = tuple(told), deque(rows)


class _Connection(AsyncAdapt_aiosqlite_connection):
    __slots__ = ()
    _cursor_cls = _Cursor  # type: ignore[assignment]  # it is declared as the class that it has


class _Driver(AsyncAdapt_aiosqlite_dbapi):
    def connect(self, *args: Any, **options: Any) -> AsyncAdapt_aiosqlite_connection:
        return _Connection(self, super().connect(*args, **options)._connection)


DRIVER: Final = _Driver(aiosqlite, sqlite3)  # `module` of `create_async_engine`

LOG_AHEAD: Final = "PRAGMA journal_mode=WAL"
LOG_ATTEMPTS: Final = 200
LOG_WAIT: Final = 0.01


def log_ahead(execute: Callable[[str], object]) -> None:
    """Turn on the write-ahead log by `execute` of a connection or cursor; the file remembers it. Raises sqlite3.Error.

    When several connections do it at once, each waits for the others' read locks: SQLite refuses them without a wait,
    whatever the busy timeout.
    """
    for _ in range(LOG_ATTEMPTS - 1):
        try:
            execute(LOG_AHEAD)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(LOG_WAIT)
        else:
            return
    execute(LOG_AHEAD)
