"""The thread store: turn records in, ThreadProtocol documents, lists and usage out. SQLite and Postgres."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import asyncpg
from sqlalchemy import delete, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores import migrate as migrations
from pipeline.stores import statements, usage_query
from pipeline.stores.documents import documents_of, summaries_of
from pipeline.stores.engine import POSTGRES, WRITE, create_engine
from pipeline.stores.failures import store_error
from pipeline.stores.schema import threads, turns
from pipeline.stores.summaries import Counts, ThreadPage, ThreadSummary, TurnUsage, WriteResult, encode_cursor
from pipeline.stores.usage_report import UsageQuery, UsageReport
from pipeline.stores.write import best_of, compare, erased_of, write
from pipeline.turns.column_text import column_text
from pipeline.turns.tokens import NANO
from threadmill.identity import thread_uuid
from topics.turn_record import TurnRecord

THREADS_AT_ONCE: Final = 50  # held in memory by documents()
CANCEL_SECONDS: Final = 10.0  # for a transaction to end when its caller is cancelled

T = TypeVar("T")


class ThreadStore:
    """One store, with a pool of connections: `async with await ThreadStore.open(url) as store`.

    Every method raises StoreError; its `transient` says whether the same call may work later.
    """

    def __init__(self, url: str) -> None:
        """For `sqlite:///path` or `postgresql://…`; connects when it is used. Raises CallerError for any other."""
        self._url = url
        self._engine = create_engine(url)
        self._writer = self._engine.execution_options(**{WRITE: True})

    @classmethod
    async def open(cls, url: str, *, migrate: bool = False) -> Self:
        """Connect, and check that the schema fits. This migrates SQLite always, Postgres only with `migrate`: there,
        users run `threadmill store migrate`.
        """
        store = cls(url)
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

    async def migrate(self) -> str | None:
        """Bring the schema up to date -> the revision before, None for an empty store."""
        with self._failures():
            async with self._reading() as connection:
                before = await migrations.current(connection)
            if before == migrations.HEAD:
                return before
            unlimited = create_engine(self._url, command_seconds=None)  # without a time limit: large tables take long
            try:
                return await migrations.upgrade(unlimited)
            finally:
                await unlimited.dispose()

    async def check(self) -> None:
        """Raise StoreError where the schema is not one that this code works with."""
        async with self._reading() as connection:
            migrations.check(await migrations.current(connection), await migrations.oldest(connection))

    async def revision(self) -> str | None:
        """The schema's revision; None where there are no tables."""
        async with self._reading() as connection:
            return await migrations.current(connection)

    # ---- writing

    async def write(self, records: Sequence[TurnRecord]) -> WriteResult:
        """Store a batch, in one transaction: all of it or nothing.

        Of two records of one turn the one that ranks higher stays (`rank` of `pipeline.turns.thread_document`). A
        record that is stored already changes nothing, nor does one of an erased thread. Several processes may write
        the same records. A cancelled call ends its transaction first.
        """
        best = best_of(records)
        if not best:
            return WriteResult()

        async def transaction() -> WriteResult:
            async with self._writing() as connection:
                return await write(connection, best)

        result = await _to_the_end(transaction())
        return replace(result, unchanged=len(records) - result.inserted - result.updated)

    async def compare(self, records: Sequence[TurnRecord]) -> WriteResult:
        """The result that `write` would have now; changes nothing."""
        best = best_of(records)
        async with self._reading() as connection:
            result = await compare(connection, best) if best else WriteResult()
        return replace(result, unchanged=len(records) - result.inserted - result.updated)

    async def delete_thread(self, thread_id: str) -> bool:
        """Delete a thread's rows -> whether there were any. A replay stores it again, if it is not `mark_erased`."""
        async with self._writing() as connection:
            # This waits for a writer that is adding the thread, so that its rows are deleted, too.
            await connection.execute(statements.add_threads(connection.dialect.name), [{"thread_id": thread_id}])
            empty = not await connection.scalar(select(turns.c.turn_id).where(turns.c.thread_id == thread_id).limit(1))
            await connection.execute(delete(threads).where(threads.c.thread_id == thread_id))
            return not empty

    async def mark_erased(self, thread_id: str, at: int) -> None:
        """Mark a thread as erased: from now on its records are dropped. `at`: epoch ms."""
        async with self._writing() as connection:
            mark = {"thread_id": thread_id, "erased_at": at}
            await connection.execute(statements.add_erased(connection.dialect.name), [mark])

    async def erased(self, thread_ids: Sequence[str]) -> set[str]:
        """Those of these threads that are marked as erased."""
        async with self._reading() as connection:
            return await erased_of(connection, thread_ids)

    # ---- reading

    async def thread(self, thread_id: str, *, tenant: str | None = None) -> dict[str, Any] | None:
        """A thread as ThreadProtocol document; None where it is not stored. `tenant`: only this tenant's records."""
        async with self._reading() as connection:
            return (await documents_of(connection, [thread_id], tenant)).get(thread_id)

    async def threads(
        self,
        limit: int = 50,
        cursor: str | None = None,
        *,
        agent_id: str | None = None,
        tenant: str | None = None,
        search: str | None = None,
        external_id: str | None = None,
        status: str | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> ThreadPage:
        """Threads, the last updated first; `search` in title, first prompt and ids, in any case; updated from `since`
        and before `until` (epoch ms). Raises CallerError for a malformed cursor.
        """
        query = statements.thread_list(limit, cursor, agent_id, tenant, search)
        query = query.where(*statements.narrowed(external_id, status, since, until))
        async with self._reading() as connection:
            found = await summaries_of(connection, query)
        page, more = found[:limit], len(found) > limit
        return ThreadPage(page, encode_cursor(page[-1].updated_at, page[-1].thread_id) if page and more else None)

    async def spawned(
        self, thread_id: str, limit: int = 100, *, tenant: str | None = None
    ) -> tuple[ThreadSummary, ...]:
        """The threads of sub-agents: those that were spawned from this one, the oldest first."""
        query = statements.spawned_from(thread_id, limit)
        async with self._reading() as connection:
            return await summaries_of(connection, query.where(*statements.of_tenant(tenant)))

    async def summary(self, thread_id: str, *, tenant: str | None = None) -> ThreadSummary | None:
        """One line of the list of threads; None where the thread is not stored."""
        query = select(threads).where(threads.c.thread_id == thread_id, *statements.of_tenant(tenant))
        async with self._reading() as connection:
            return next(iter(await summaries_of(connection, query)), None)

    async def thread_ids(self) -> AsyncIterator[str]:
        """Every thread's id, in their order."""
        async for some in self._id_pages():
            for thread_id in some:
                yield thread_id

    async def runs(self) -> AsyncIterator[tuple[str, str]]:
        """(thread_id, run_id) of every run with a stored record, as the columns hold them."""
        async for some in self._id_pages():
            async with self._reading() as connection:
                rows = (await connection.execute(statements.run_ids(some))).all()
            for thread_id, run_id in rows:
                yield thread_id, run_id

    async def documents(self) -> AsyncIterator[dict[str, Any]]:
        """Every thread's document, in the order of ids, read in pages: memory does not grow with the store."""
        async for some in self._id_pages():
            async with self._reading() as connection:
                documents = await documents_of(connection, some)
            for thread_id in some:
                if thread_id in documents:
                    yield documents[thread_id]

    async def find(self, conversation_id: str, *, tenant: str | None = None) -> str | None:
        """A thread's own id, or the id that its producer gave it -> thread_id; None where it is not stored."""
        thread_id, _ = thread_uuid(conversation_id, tenant)
        declared = threads.c.external_id == column_text(conversation_id)
        async with self._reading() as connection:
            for condition in (threads.c.thread_id == thread_id, declared):
                query = select(threads.c.thread_id).where(condition, *statements.of_tenant(tenant)).limit(1)
                found: str | None = await connection.scalar(query)
                if found is not None:
                    return found
        return None

    async def usage(self, query: UsageQuery) -> UsageReport:
        """Tokens, cost and times of the stored turns. Raises CallerError for too many buckets."""
        async with self._reading() as connection:
            if connection.dialect.name == "postgresql":  # one snapshot for several statements, as SQLite gives it
                await connection.execution_options(isolation_level="REPEATABLE READ")
            return await usage_query.report(connection, query)

    async def turn_usage(self, thread_id: str, *, tenant: str | None = None) -> dict[str, TurnUsage]:
        """turn_id -> its usage, of each turn of a thread that has any."""
        query = statements.turn_usage(thread_id, tenant)
        async with self._reading() as connection:
            rows = (await connection.execute(query)).all()
        return {
            turn_id: TurnUsage(int(used), int(made), int(total), None if cost is None else int(cost) / NANO, ttft)
            for turn_id, used, made, total, cost, ttft in rows
        }

    async def counts(self) -> Counts:
        """The numbers of stored threads, turns and runs."""
        async with self._reading() as connection:
            return Counts(*(await connection.execute(statements.counts())).one())

    async def _id_pages(self) -> AsyncIterator[list[str]]:
        after = ""
        while True:
            async with self._reading() as connection:
                some = list(await connection.scalars(statements.thread_ids(after, THREADS_AT_ONCE)))
            if not some:
                return
            yield some
            after = some[-1]

    # ---- connections

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise store_error(error, self._url) from None

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        with self._failures():
            async with self._engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        with self._failures():
            async with self._writer.begin() as connection:
                yield connection


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
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
