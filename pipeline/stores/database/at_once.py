"""A transaction on SQLite that runs as a whole in one thread.

SQLite's asynchronous driver passes each statement to a thread of its own, so a transaction switches threads about ten
times. When the event loop is busy, the switching takes far longer than the statements.

A transaction is written once, with `await`, for both databases. Here no `await` suspends: each statement is executed
when it is called, so the coroutine runs to its end without an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, CursorResult, Engine, Executable, ScalarResult
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.asyncio import AsyncConnection

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
