"""The thread store, in SQLite or Postgres: opening it, its schema, transactions; every failure is a StoreError."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import asyncpg
from sqlalchemy import Executable, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.policies.prices import NONE, Prices
from pipeline.stores.database import migrate as migrations
from pipeline.stores.database.engine import POSTGRES, SEARCH, WRITE, create_direct_engine, create_engine
from pipeline.stores.database.failures import store_error
from pipeline.stores.database.schema import compatibility
from pipeline.stores.database.sending import in_one_go

CANCEL_SECONDS: Final = 10.0  # for a transaction to end when its caller is cancelled

T = TypeVar("T")


class ThreadStore:
    """One store, with a pool of connections: `async with await ThreadStore.open(url) as store`.

    It has the schema and the transactions; what is written and read stands in the modules of each room, as functions
    that take a store. All of them raise StoreError; its `transient` says whether the same call may work later.
    """

    def __init__(self, url: str, *, search: str = "on", prices: Prices = NONE) -> None:
        """Prepare a store; connects later. `search`: TURNMILL_SEARCH; `prices`: the operator's. Raises CallerError."""
        self.url = url
        self.prices = prices
        self._engine = create_engine(url)
        self._direct = create_direct_engine(url)
        self._writer = self._engine.execution_options(**{WRITE: True, SEARCH: search})

    @classmethod
    async def open(cls, url: str, *, migrate: bool = False, search: str = "on", prices: Prices = NONE) -> Self:
        """Connect, and check the schema, or `migrate` it; SQLite is always migrated."""
        store = cls(url, search=search, prices=prices)
        try:
            if migrate or not url.startswith(POSTGRES):
                await store.migrate()
            else:
                await store.check()
        except BaseException:
            await store.close()
            raise
        return store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._engine.dispose()
        if self._direct is not None:
            self._direct.dispose()

    async def migrate(self) -> str | None:
        """Bring the schema up to date; return the revision before, None for an empty store."""
        with self.failures():
            async with self.reading() as connection:
                before = await migrations.current(connection)
            if before == migrations.HEAD:
                return before
            unlimited = create_engine(self.url, command_seconds=None)  # without a time limit: large tables take long
            try:
                return await migrations.upgrade(unlimited)
            finally:
                await unlimited.dispose()

    async def check(self) -> None:
        """Raise StoreError if this code does not work with the schema, or with a pooler before the store."""
        async with self.reading() as connection:
            migrations.check(await migrations.current(connection), await migrations.oldest(connection))
            # Repeated while another one is in a transaction: a pooler may have given that one the session of this one,
            # where its prepared statements are.
            await connection.rollback()
            async with self.reading() as other:
                await other.execute(select(1))
                await migrations.oldest(connection)

    async def check_writing(self) -> None:
        """Write, and roll back. Raises StoreError if the store takes no writes."""
        with self.failures():
            async with self._writer.connect() as connection:
                await connection.execute(update(compatibility).values(oldest=compatibility.c.oldest))

    async def revision(self) -> str | None:
        """Return the schema's revision; None where there are no tables."""
        async with self.reading() as connection:
            return await migrations.current(connection)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Raise a database's errors as StoreError."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise store_error(error, self.url) from None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection for statements that only read."""
        with self.failures():
            async with self._engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def only_reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection for statements of others, which can't write."""
        async with self.reading() as connection:
            is_sqlite = connection.dialect.name == "sqlite"
            await connection.exec_driver_sql("PRAGMA query_only=ON" if is_sqlite else "SET TRANSACTION READ ONLY")
            try:
                yield connection
            finally:
                if is_sqlite:
                    await connection.exec_driver_sql("PRAGMA query_only=OFF")

    async def rows(self, query: Executable) -> Sequence[Any]:
        """Return the rows of a query."""
        async with self.reading() as connection:
            return (await connection.execute(query)).all()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """Open a snapshot for several statements; SQLite's transactions always have one."""
        async with self.reading() as connection:
            if connection.dialect.name == "postgresql":
                await connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    async def written(self, work: Callable[[AsyncConnection], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which awaits its statements only, as one transaction, even if cancelled; return its result."""
        if self._direct is None:
            return await self.completed(work)
        options = self._writer.get_execution_options()
        with self.failures():
            return await to_the_end(asyncio.to_thread(in_one_go, self._direct, options, work))

    async def completed(self, work: Callable[[AsyncConnection], Coroutine[Any, Any, T]]) -> T:
        """Run `work` in a transaction that ends even when the caller is cancelled; return what it returns."""

        async def transaction() -> T:
            async with self.writing() as connection:
                return await work(connection)

        return await to_the_end(transaction())

    async def change(self, statement: Executable, rows: Sequence[Mapping[str, Any]] | None = None) -> int:
        """Execute a statement, for each of these rows if given; return how many rows of the store it changed."""
        async with self.writing() as connection:
            return (await connection.execute(statement, rows)).rowcount

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction; it is committed unless an error is raised."""
        with self.failures():
            async with self._writer.begin() as connection:
                yield connection


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await a transaction, also when the caller is cancelled: SQLite's thread can't be stopped in the middle."""
    task = asyncio.create_task(work)
    # Retrieve the exception in any case: asyncio warns of one that is never retrieved.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=CANCEL_SECONDS)
        task.cancel()
        raise
