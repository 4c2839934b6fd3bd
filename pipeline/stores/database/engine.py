"""The SQLAlchemy engine for a store's URL, set up so that committed transactions survive a power cut."""

import sqlite3
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import sqlalchemy
from sqlalchemy import URL, Connection, Engine, QueuePool, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.failures import store_error
from pipeline.stores.database.packing import unpacked
from pipeline.stores.database.primary import connect, keep_to
from pipeline.stores.database.sqlite_driver import DRIVER, log_ahead
from topics import json_text
from turnmill.errors import CallerError

SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql://", "postgres://")
BUSY_SECONDS: Final = 15.0
CONNECT_SECONDS: Final = 10.0
COMMAND_SECONDS: Final = 60.0
LOG_BYTES: Final = 64 * 1024 * 1024  # of SQLite's write-ahead log, until it is emptied
CACHE: Final = "cache_size=-16000"  # KB for each connection, as far as its reads and writes need them
COPIED: Final = "wal_autocheckpoint=4000"  # pages of 4 KB in the log, from which on they are copied into the database
EMPTY_MS: Final = 200  # how long emptying the log waits for readers and writers
WRITE: Final = "turnmill_write"  # execution option: the transaction will write
SEARCH: Final = "turnmill_search"  # execution option: the search setting, for turns that the transaction writes


class ReleasingConnection(sqlite3.Connection):
    """A connection that gives up its locks when it is closed.

    A transaction that is cancelled in the middle of a statement leaves a cursor behind, referenced by the exception's
    traceback. SQLite keeps a connection open, with the write lock, while it has such a cursor: nobody could write.
    """

    def close(self) -> None:
        """Roll back, and close; a second time, do nothing."""
        with suppress(sqlite3.Error):
            self.rollback()
        super().close()


def create_engine(url: str, *, command_seconds: float | None = COMMAND_SECONDS) -> AsyncEngine:
    """Return an engine, which connects later; `command_seconds`: Postgres' limit. Raises CallerError, StoreError."""
    if url.startswith(SQLITE):
        return _sqlite(Path(url.removeprefix(SQLITE)))
    if url.startswith(POSTGRES):
        return _postgres(url, command_seconds)
    raise CallerError("TURNMILL_STORE: sqlite:///path or postgresql://user:password@host:port/database is expected")


def create_direct_engine(url: str) -> Engine | None:
    """Return the engine, with a separate connection, of SQLite's transactions in one go; None for Postgres."""
    if not url.startswith(SQLITE):
        return None
    path = Path(url.removeprefix(SQLITE))
    engine = sqlalchemy.create_engine(
        URL.create("sqlite", database=str(path)),
        json_serializer=json_text.dumps,
        json_deserializer=json_text.loads,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        poolclass=QueuePool,
        pool_use_lifo=True,
    )
    _listen(engine, path)
    return engine


def _sqlite(path: Path) -> AsyncEngine:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"can't make the folder of the store {path}: {error.strerror}; set TURNMILL_STORE") from None
    try:  # aiosqlite leaves its thread behind where the file can't be opened
        sqlite3.connect(path).close()
    except sqlite3.Error as error:
        raise store_error(error, f"{SQLITE}{path}") from None
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        module=DRIVER,
        json_serializer=json_text.dumps,
        json_deserializer=json_text.loads,
        connect_args={"timeout": BUSY_SECONDS, "factory": ReleasingConnection},
        pool_use_lifo=True,  # the last used one has useful pages in its cache
    )
    _listen(engine.sync_engine, path)
    return engine


def _listen(engine: Engine, path: Path) -> None:
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", partial(_begin_sqlite, log=WriteAheadLog(Path(f"{path}-wal"))))


def _configure_sqlite(connection: Any, _record: object) -> None:
    """Turn on the write-ahead log, so that readers and the writer don't wait for each other.

    A commit is on disk when it returns (synchronous=FULL). Offsets are committed to Kafka because of it, so it must
    outlive a power cut, not only a kill -9; that costs an fsync per batch. Keys of rows are spread over all of an
    index: with the usual cache of 2 MB a batch reads most of its pages anew, and with a log of 4 MB the same ones are
    copied into the database again and again.

    What is deleted is overwritten (secure_delete=ON), also what a newer revision of a turn replaces, for which 1 % more
    is written.
    """
    connection.create_function("from_hex", 1, bytes.fromhex, deterministic=True)  # SQLite has `unhex` from 3.41 on
    connection.create_function("record_json", 1, lambda stored: unpacked(stored).decode(), deterministic=True)
    connection.isolation_level = None  # we send BEGIN ourselves: the driver sends it too late, after the first read
    cursor = connection.cursor()
    log_ahead(cursor.execute)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON", CACHE, COPIED):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


class WriteAheadLog:
    """Keeps SQLite's log small: SQLite itself begins anew only while nobody reads; with busy workers, never."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.limit = LOG_BYTES

    def keep_small(self, connection: Connection) -> None:
        """Empty a large log. A writer in the way postpones it to the next transaction, a reader by LOG_BYTES."""
        size = self.file.stat().st_size if self.file.exists() else 0
        if size < self.limit:
            return
        connection.exec_driver_sql(f"PRAGMA busy_timeout={EMPTY_MS}")
        try:
            busy, pages, copied = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")
        self.limit = size + LOG_BYTES if busy and copied < pages else LOG_BYTES


def _begin_sqlite(connection: Connection, *, log: WriteAheadLog) -> None:
    """Begin a transaction. A writer takes the lock at once: it waits for others here instead of failing later."""
    writes = connection.get_execution_options().get(WRITE)
    if writes:
        log.keep_small(connection)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgres(url: str, command_seconds: float | None) -> AsyncEngine:
    creator = partial(connect, url, timeout=CONNECT_SECONDS, command_timeout=command_seconds)
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=creator,
        json_serializer=json_text.dumps,
        json_deserializer=json_text.loads,
        pool_size=5,
        max_overflow=5,
    )
    keep_to(engine)
    return engine


def search_choice(connection: AsyncConnection) -> str:
    """Return the search setting under which a transaction writes turns."""
    return str(connection.sync_connection.get_execution_options().get(SEARCH, "on"))  # type: ignore[union-attr]  # open
