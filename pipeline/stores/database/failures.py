"""Converts a database's error to a StoreError with advice, transient or not. Passwords are left out."""

import sqlite3
from typing import Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pipeline.stores.database.errors import StoreError, UnstorableData
from pipeline.stores.database.primary import READ_ONLY
from turnmill.settings import without_password

MIGRATE: Final = "run `turnmill store migrate`"
NOT_WRITABLE: Final = (
    "the server takes no writes: a standby, or a primary that was set read-only, perhaps since its disk is full: wait "
    "for the failover, name the primary in TURNMILL_STORE, or make room"
)
POOLED: Final = (
    "a pooler hands each transaction to another session, which lacks our prepared statements: set its pool_mode to "
    "session, or let TURNMILL_STORE lead past it"
)

# (SQLSTATE or the beginning of it, transient, advice): the first row that fits is used.
POSTGRES: Final[tuple[tuple[str, bool, str], ...]] = (
    ("28", False, "user or password is refused: check TURNMILL_STORE and pg_hba.conf"),
    ("3D000", False, "the database does not exist: create it with `createdb`, or correct TURNMILL_STORE"),
    ("42501", False, "the user lacks a right: grant it, or use another user in TURNMILL_STORE"),
    ("42P01", False, f"the tables are not there: {MIGRATE}"),
    ("42703", False, f"the tables are of another version: {MIGRATE}"),
    ("53100", True, "the server's disk is full: make room"),
    ("53300", True, "the server has no free connection: raise max_connections, or run fewer workers"),
    ("53", True, "the server is out of resources"),
    ("57014", True, "the query took too long and was cancelled"),
    ("57P", True, "the server is starting or stopping"),
    ("08", True, "the connection broke"),
    ("40", True, "the transaction lost against another one"),
    ("55P03", True, "a lock is held for too long by another transaction"),
    (READ_ONLY, True, NOT_WRITABLE),
    ("26000", False, POOLED),
    ("42P05", False, POOLED),
    ("23503", True, "the thread was deleted while it was written"),
)
# (part of SQLite's message, transient, advice)
SQLITE: Final[tuple[tuple[str, bool, str], ...]] = (
    ("database is locked", True, "another process holds the file's write lock for too long"),
    ("database or disk is full", True, "the disk is full: make room"),
    ("disk I/O error", True, "the disk fails: check it, and the file system's free space"),
    ("unable to open database file", False, "the file can't be opened: check the path and its rights"),
    ("readonly database", False, "the file is read-only: check its rights and those of its folder"),
    ("file is not a database", False, "this file is no SQLite database: set TURNMILL_STORE to another path"),
    ("malformed", False, "the file is damaged: restore it from a copy, then replay the topics"),
    ("no such table", False, f"the tables are not there: {MIGRATE}"),
    ("no such column", False, f"the tables are of another version: {MIGRATE}"),
)
# Classes of SQLSTATE, and parts of SQLite's messages, which mean that the data is at fault, if no row above fits.
# SQLite's IntegrityError means that, too: the author of a trigger chooses its message.
POSTGRES_DATA: Final = ("21", "22", "23", "54", "P0")  # cardinality, values, constraints, sizes and depths, triggers
SQLITE_DATA: Final = ("constraint failed", "integer overflow", "too big", "binding parameter", "datatype mismatch")


def store_error(error: BaseException, url: str) -> StoreError:
    """Return the StoreError for a failed database call. Callers raise it `from None`: the original may contain data."""
    where = f"the store {without_password(url)}"
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    state: str = getattr(cause, "sqlstate", None) or ""
    message = (str(cause).splitlines() or [""])[0]
    for code, transient, advice in POSTGRES if state else ():
        if state.startswith(code):
            return StoreError(f"{where}: {advice} ({state})", transient=transient)
    for part, transient, advice in SQLITE if not state else ():
        if part in message:
            return StoreError(f"{where}: {advice}", transient=transient)
    by_sqlite = isinstance(cause, sqlite3.IntegrityError) or any(part in message for part in SQLITE_DATA)
    if state.startswith(POSTGRES_DATA) or (not state and by_sqlite):
        return UnstorableData(_refused(where, cause, message))
    if isinstance(cause, OSError | TimeoutError) or _disconnected(error):
        why = message or type(cause).__name__
        return StoreError(f"{where} can't be reached ({why}): is it running, is TURNMILL_STORE right?", transient=True)
    return StoreError(_refused(where, cause, message), transient=False)


def _refused(where: str, cause: BaseException, message: str) -> str:
    return f"{where} refused: {type(cause).__name__}: {message[:300]}"


def _disconnected(error: BaseException) -> bool:
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or type(error.orig).__name__ == "InterfaceError"
    # The pool had no connection in time, or asyncpg's own errors for a lost connection.
    return isinstance(error, SQLAlchemyError) or type(error).__name__ in (
        "InterfaceError",
        "ConnectionDoesNotExistError",
    )
