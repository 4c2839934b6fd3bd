"""The thread store, in SQLite and Postgres: stores turn records; returns ThreadProtocol documents, lists and usage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby, repeat
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.policies.budgets import Budget
from pipeline.policies.retention import Retention
from pipeline.stores.accounts.audit import Audited
from pipeline.stores.accounts.tokens import Tokens
from pipeline.stores.accounts.views import Viewed
from pipeline.stores.database.keys import id_and_tenant, thread_of, turn_text
from pipeline.stores.keeping.expiring import Expiring
from pipeline.stores.keeping.holding import Holding
from pipeline.stores.keeping.scrubbing import Scrubbing
from pipeline.stores.keeping.tenants import OfTenants
from pipeline.stores.outbound.deliveries import Delivering
from pipeline.stores.outbound.notices import Noticing, delete_turns
from pipeline.stores.search.hits import callers
from pipeline.stores.search.index import Searched
from pipeline.stores.threads import list_statements, statements
from pipeline.stores.threads.documents import documents_of, keys_in, records_of, summaries_of, summary_of
from pipeline.stores.threads.erased import erased_of
from pipeline.stores.threads.feedback import Feedback
from pipeline.stores.threads.holds import held_of, held_thread
from pipeline.stores.threads.list_statements import ALL, SORTS, UPDATED, ListQuery
from pipeline.stores.threads.lookups import certain
from pipeline.stores.threads.requests import Asked
from pipeline.stores.threads.rows import record_rows
from pipeline.stores.threads.summaries import Counts, ThreadPage, ThreadSummary, TurnUsage, WriteResult, encode_cursor
from pipeline.stores.threads.waiting import Waiting, WaitingWanted, waiting
from pipeline.stores.threads.write import FOREVER, compare, lives_by, lock, mark_erased, write
from pipeline.stores.usage import deleted as deleted_usage
from pipeline.stores.usage import query as usage_query
from pipeline.stores.usage.deleted import DeletedUsage
from pipeline.stores.usage.report import UsageQuery, UsageReport
from pipeline.stores.usage.repricing import Repricing
from pipeline.stores.usage.turns import used_by
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid

THREADS_BATCH: Final = 50  # that documents() keeps in memory


class ThreadStore(
    OfTenants,
    Holding,
    Expiring,
    Searched,
    Asked,
    Feedback,
    Noticing,
    Delivering,
    Tokens,
    Audited,
    DeletedUsage,
    Repricing,
    Viewed,
    Scrubbing,
):
    """One store, with a pool of connections: `async with await ThreadStore.open(url) as store`.

    Every method raises StoreError; its `transient` says whether the same call may work later.
    """

    # ---- writing

    async def write(
        self,
        records: Sequence[TurnRecord],
        retention: Retention = FOREVER,
        now: int = 0,
        values: Sequence[bytes | None] = (),
    ) -> WriteResult:
        """Store a batch in one transaction.

        `values`: the records' original JSON, from callers that have it.

        A turn is replaced by a record that holds all of its events and ranks higher (`stores.threads.versions`). These
        records change nothing: one that is stored already; one of an erased thread; one of a turn that is not stored,
        and that is older at `now` (epoch ms) than the retention, unless its thread is held. Several processes may write
        the same records. A cancelled call ends its transaction first.
        """
        if not records:
            return WriteResult()
        batch = dict(enumerate(map(record_rows, records, values or repeat(None), repeat(self._prices))))
        return await self._written(partial(write, batch=batch, retention=retention, now=now))

    async def compare(self, records: Sequence[TurnRecord], retention: Retention = FOREVER, now: int = 0) -> WriteResult:
        """Return the result that `write` would have now; change nothing."""
        batch = dict(enumerate(map(record_rows, records, repeat(None), repeat(self._prices))))
        async with self._reading() as connection:
            return await compare(connection, batch, retention, now) if batch else WriteResult()

    async def delete_thread(self, key: ThreadKey, budgets: Iterable[Budget] = ()) -> bool:
        """Delete a thread's rows; return whether there were any.

        A replay stores it again unless `mark_erased` was called. Its usage still counts towards these budgets.
        """
        async with self._writing() as connection:
            locked = await lock(connection, [key])  # waits for a writer that is adding the thread
            found = await connection.scalar(statements.has_turns(key))
            await deleted_usage.note(connection, key, budgets, now_ms())
            await delete_turns(connection, [key], "deleted")
            await connection.execute(statements.delete_empty([locked[key].id]))
            await connection.execute(statements.delete_expired(key))
            return found is not None

    async def mark_erased(self, key: ThreadKey) -> None:
        """Mark a thread as erased: from now on its records are dropped. Raises HeldThread."""
        async with self._writing() as connection:
            locked = await lock(connection, [key])
            if await held_of(connection, [key]):
                raise held_thread(key)
            await mark_erased(connection, key)
            await connection.execute(statements.delete_empty([locked[key].id]))

    async def sub_agents(self, key: ThreadKey) -> list[ThreadKey]:
        """Return the threads in which only sub-agents of this thread, and of other erased threads, have spoken.

        The thread itself must be marked as erased.
        """
        async with self._writing() as connection:
            await lock(connection, [key])  # waits for writers of sub-agents' turns that have not seen the mark
            spawned = await summaries_of(connection, list_statements.spawned_from(key, None))
            return [one.key for one in spawned.values() if await lives_by(connection, one.key)]

    async def erased(self, keys: Iterable[ThreadKey]) -> set[ThreadKey]:
        """Return the erased ones of these threads."""
        async with self._reading() as connection:
            return await erased_of(connection, keys)

    # ---- reading

    async def thread(self, key: ThreadKey) -> dict[str, Any] | None:
        """Return a thread as ThreadProtocol document; None if it is not stored."""
        async with self._reading() as connection:
            return (await documents_of(connection, [key])).get(key)

    async def records(self, key: ThreadKey) -> list[TurnRecord]:
        """Return the turn records of a thread, oldest first, without the bodies of their requests."""
        async with self._reading() as connection:
            return await records_of(connection, key)

    async def threads(self, limit: int = 50, cursor: str | None = None, wanted: ListQuery = ALL) -> ThreadPage:
        """Return threads in the wanted order, by default the last updated first.

        Raises CallerError for a malformed cursor.
        """
        async with self._reading() as connection:
            called = None if wanted.tool is None else await callers(connection, wanted.tool, wanted.tenant)
            await certain(connection)
            of_turns = None if called is None else list_statements.threads_of(called)
            statement = list_statements.thread_list(limit, cursor, wanted, of_turns)
            found = list((await summaries_of(connection, statement)).items())
        page, value = found[:limit], SORTS[wanted.sort][1]
        cursor = encode_cursor(value(page[-1][1]), page[-1][0]) if len(found) > limit else None
        among = None if wanted.sort == UPDATED else list_statements.AMONG
        return ThreadPage(tuple(summary for _, summary in page), cursor, among)

    async def waiting(self, wanted: WaitingWanted, limit: int = 100) -> list[Waiting]:
        """Return the threads whose newest turn waits for an answer, the last updated first."""
        async with self._reading() as connection:
            return await waiting(connection, wanted, limit)

    async def spawned(self, key: ThreadKey, limit: int = 100) -> tuple[ThreadSummary, ...]:
        """Return the threads of sub-agents: those that were spawned from this one, the oldest first."""
        async with self._reading() as connection:
            return tuple((await summaries_of(connection, list_statements.spawned_from(key, limit))).values())

    async def summary(self, key: ThreadKey) -> ThreadSummary | None:
        """Return the thread's line of the list of threads; None if it is not stored."""
        async with self._reading() as connection:
            return await summary_of(connection, key)

    async def thread_keys(self) -> AsyncIterator[ThreadKey]:
        """Yield every thread, in the order of ids."""
        async for some in self._pages():
            for key in some.values():
                yield key

    async def runs(self) -> AsyncIterator[tuple[str | None, str, str]]:
        """Yield (tenant, thread_id, run_id) of every run with a stored record, as in the columns."""
        async for some in self._pages():
            async with self._reading() as connection:
                await certain(connection)
                rows = (await connection.execute(statements.run_ids(list(some)))).all()
            for thread, run_id in rows:
                thread_id, tenant = id_and_tenant(some[thread])
                yield tenant or None, thread_id, run_id

    async def run_events(self, key: ThreadKey) -> dict[str, int]:
        """Return the number of stored events of each run of a thread."""
        async with self._reading() as connection:
            return {run_id: int(events) for run_id, events in await connection.execute(statements.run_events(key))}

    async def documents(self, wanted: ListQuery = ALL) -> AsyncIterator[tuple[ThreadKey, dict[str, Any]]]:
        """Yield every wanted thread with its document, in the order of ids, read in pages.

        Memory does not grow with the store. `tool` and `sort` are ignored.
        """
        async for page in self._pages(wanted):
            some = list(page.values())
            async with self._reading() as connection:
                documents = await documents_of(connection, some)
            for key in some:
                if key in documents:
                    yield key, documents[key]

    async def find(self, conversation_id: str, tenant: str | None = None) -> tuple[ThreadKey, ...]:
        """Return the threads with an id, their own or their producer's: one of each tenant.

        `tenant`: only that one's, "" for the thread without one. If there are several, with None, the caller must
        choose.
        """
        thread_id, _ = thread_uuid(conversation_id, tenant)
        async with self._reading() as connection:
            if tenant is not None:
                key = ThreadKey.of(thread_id, tenant)
                if await connection.scalar(statements.has_turns(key)):
                    return (key,)
                return tuple(await keys_in(connection, list_statements.declaring(conversation_id, tenant)))[:1]
            found: dict[str | None, ThreadKey] = {}
            for query in (list_statements.having_id(thread_id), list_statements.declaring(conversation_id, None)):
                for key in await keys_in(connection, query):
                    found.setdefault(key.tenant, key)
        return tuple(found.values())

    async def usage(self, query: UsageQuery) -> UsageReport:
        """Return tokens, cost and times of the stored turns. Raises CallerError for too many buckets."""
        async with self._snapshot() as connection:
            if "thread" in query.where:
                await certain(connection)
            return await usage_query.report(connection, query)

    async def used(self, query: UsageQuery, scope: str) -> tuple[UsageReport, dict[str, int]]:
        """Return the report of `usage`, and the usage of deleted threads by tenant.

        The latter counts towards the budgets of this scope, in the window that begins as the query does.
        """
        async with self._snapshot() as connection:
            report = await usage_query.report(connection, query)
            return report, await deleted_usage.of_scope(connection, scope, query.start or 0)

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[AsyncConnection]:
        """Open one snapshot for several statements; SQLite's transactions always have one."""
        async with self._reading() as connection:
            if connection.dialect.name == "postgresql":
                await connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    async def spent(self, since: int) -> int:
        """Return the known cost of all responses from `since` (epoch ms) on, in 10⁻⁹ US dollars."""
        return (await self.usage(UsageQuery(start=since))).total.cost_nano_usd

    async def turn_usage(self, key: ThreadKey) -> dict[str, TurnUsage]:
        """Return the usage of each turn of a thread that has any, by turn_id."""
        async with self._reading() as connection:
            await certain(connection)
            rows = (await connection.execute(statements.turn_usage(key))).all()

        def by_turn() -> dict[str, TurnUsage]:
            groups = groupby(rows, lambda row: bytes(row.turn_id))
            return {turn_text(turn_id): used_by(list(some)) for turn_id, some in groups}

        return await asyncio.to_thread(by_turn)

    async def counts(self) -> Counts:
        """Return the numbers of stored threads, turns and runs. This reads all turns."""
        async with self._reading() as connection:
            return Counts(*map(int, (await connection.execute(statements.counts())).one()))

    async def _pages(self, wanted: ListQuery = ALL) -> AsyncIterator[dict[int, ThreadKey]]:
        """Yield pages of the wanted threads by their ids in the database, in the order of names."""
        after = ("", "")
        while True:
            async with self._reading() as connection:
                rows = (await connection.execute(list_statements.thread_names(after, THREADS_BATCH, wanted))).all()
            if not rows:
                return
            yield {row.id: thread_of(row) for row in rows}
            after = rows[-1].thread_id, rows[-1].tenant
