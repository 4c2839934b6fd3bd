"""Connections to Postgres' primary: the server that takes writes, wherever the address leads since a failover.

A session with a standby, or with a server that was read-only when the session began, is ended at the server. To close
the connection is not enough: a pooler such as PgBouncer keeps the session, and hands it to the next client.
"""

from contextlib import suppress
from typing import Any, Final

import asyncpg
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry

READ_ONLY: Final = "25006"  # SQLSTATE
USED: Final = "used"  # in what the pool knows of a connection: it is not new
KEPT: Final = 3  # sessions of a pooler with a standby that an attempt ends: each would fail the next attempt
CHECK_SECONDS: Final = 10.0  # a server that is gone without a word is given up soon
# One round trip, which also says whether the connection lives. `default_transaction_read_only`, with which managed
# services protect a full disk, stays as the session found it, so only a new session finds out that it is over.
END_READ_ONLY: Final = """
    SELECT pg_terminate_backend(pg_backend_pid())
    WHERE pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'
"""
# A new session may read then: the data is the primary's. Behind a pooler, the session of a new connection may be old.
OLD: Final = "AND now() - (SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())) > interval '5 s'"


class _Asked(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection whose server is asked whether it is a standby; PgBouncer passes on what its first server was."""

    __slots__ = ()

    def get_settings(self) -> Any:
        """Return nothing, so that asyncpg asks the server."""
        return None


async def connect(url: str, **options: Any) -> asyncpg.Connection:
    """Connect to the primary among the hosts of `url`. Raises asyncpg's errors, and OSError."""
    # asyncpg parses the whole URL itself: sslmode and libpq's other options, several hosts, sockets.
    options["connection_class"] = _Asked
    for _ in range(KEPT):
        connection = await asyncpg.connect(url, target_session_attrs="any", **options)
        if await _serves(connection, END_READ_ONLY + OLD):
            return connection
        connection.terminate()
        with suppress(asyncpg.TargetServerAttributeNotMatched):
            return await asyncpg.connect(url, target_session_attrs="primary", **options)
    raise asyncpg.ReadOnlySQLTransactionError("no host is the primary")


def keep_to(engine: AsyncEngine) -> None:
    """Throw away all connections of the pool once one of them is dead or finds a server that takes no writes."""
    event.listen(engine.sync_engine, "checkout", _check)
    event.listen(engine.sync_engine, "handle_error", _disconnect)


def _check(connection: Any, record: ConnectionPoolEntry, _proxy: object) -> None:
    if USED in record.info and not connection.run_async(_serves):
        raise InvalidatePoolError
    record.info[USED] = True


def _disconnect(context: ExceptionContext) -> None:
    # Closed in the middle of a transaction, so that a pooler doesn't keep the session.
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


async def _serves(connection: asyncpg.Connection, asking: str = END_READ_ONLY) -> bool:
    try:
        return str(await connection.execute(asking, timeout=CHECK_SECONDS)) == "SELECT 0"
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):  # it has ended
        return False
