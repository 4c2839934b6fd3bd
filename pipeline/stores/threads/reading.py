"""Reading threads: their ThreadProtocol documents, their lines in lists, their turn records, all of them in pages.

Also those that wait for an answer: to an approval, for a client-side tool's result, or to a question.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row, Select, func, select
from sqlalchemy import tuple_ as row_of
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.held_and_erased import erased_of
from pipeline.stores.database.keys import id_and_tenant, key_of, thread_of
from pipeline.stores.database.schema import WAITING, threads, turns, usage, usage_names
from pipeline.stores.database.sending import certain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import list_statements, statements
from pipeline.stores.threads.labels import labels_of
from pipeline.stores.threads.list_statements import ALL, ListQuery, of_tenant, speaks
from pipeline.stores.threads.rows import COMPLETE, USER, record_of, without_links
from pipeline.stores.threads.summaries import Counts, ThreadSummary
from pipeline.turns.column_text import column_text
from pipeline.turns.thread_document import outgoing, thread_document
from pipeline.turns.tokens import NANO
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.control.claims import answer_id
from turnmill.identity import thread_uuid

THREADS_BATCH: Final = 50  # that `all_documents` keeps in memory


async def erased_among(store: ThreadStore, keys: Iterable[ThreadKey]) -> set[ThreadKey]:
    """Return the erased ones of these threads."""
    async with store.reading() as connection:
        return await erased_of(connection, keys)


async def read_thread(store: ThreadStore, key: ThreadKey) -> dict[str, Any] | None:
    """Return a thread as ThreadProtocol document; None if it is not stored."""
    async with store.reading() as connection:
        return (await documents_of(connection, [key])).get(key)


async def read_records(store: ThreadStore, key: ThreadKey) -> list[TurnRecord]:
    """Return the turn records of a thread, oldest first, without the bodies of their requests."""
    async with store.reading() as connection:
        await certain(connection)
        texts = list(await connection.scalars(statements.records([key])))
    return [record for record in map(record_of, texts) if record["thread_id"] == key.thread_id]


async def spawned_threads(store: ThreadStore, key: ThreadKey, limit: int = 100) -> tuple[ThreadSummary, ...]:
    """Return the threads of sub-agents: those that were spawned from this thread, the oldest first."""
    async with store.reading() as connection:
        return tuple((await summaries_of(connection, list_statements.spawned_from(key, limit))).values())


async def thread_summary(store: ThreadStore, key: ThreadKey) -> ThreadSummary | None:
    """Return the thread's line of the list of threads; None if it is not stored."""
    async with store.reading() as connection:
        lines = await summaries_of(connection, select(threads).where(statements.is_thread(key)))
    return next(iter(lines.values()), None)


async def count_turns(store: ThreadStore, key: ThreadKey) -> int:
    """Return how many turns of a thread are stored."""
    rows = await store.rows(select(threads.c.turns).where(statements.is_thread(key)))
    return int(rows[0].turns) if rows else 0


async def stored_runs(store: ThreadStore) -> AsyncIterator[tuple[str | None, str, str]]:
    """Yield (tenant, thread_id, run_id) of every run with a stored record, as in the columns."""
    async for some in _pages(store):
        async with store.reading() as connection:
            await certain(connection)
            query = select(turns.c.thread, turns.c.run_id).where(turns.c.thread.in_(list(some))).distinct()
            rows = (await connection.execute(query)).all()
        for thread, run_id in rows:
            thread_id, tenant = id_and_tenant(some[thread])
            yield tenant or None, thread_id, run_id


async def run_events(store: ThreadStore, key: ThreadKey) -> dict[str, int]:
    """Return the number of stored events of each run of a thread."""
    query = select(turns.c.run_id, func.max(turns.c.events)).where(turns.c.thread == statements.number_of(key))
    return {run_id: int(events) for run_id, events in await store.rows(query.group_by(turns.c.run_id))}


async def answered_live(store: ThreadStore, key: ThreadKey) -> list[int]:
    """Return when each response began in a thread's runs that were not imported and have a question: epoch ms."""
    mine = turns.c.thread == statements.number_of(key)
    asked = select(turns.c.run_id).where(mine, turns.c.role == USER)
    query = select(usage.c.at).join(turns, usage.c.turn == turns.c.id)
    query = query.join(usage_names, usage.c.names == usage_names.c.id).where(mine, turns.c.run_id.in_(asked))
    rows = await store.rows(query.where(usage_names.c.origin == ""))
    return [int(at) for (at,) in rows]


async def all_documents(store: ThreadStore, wanted: ListQuery = ALL) -> AsyncIterator[tuple[ThreadKey, dict[str, Any]]]:
    """Yield wanted threads with their documents, in the order of ids, in pages. Ignores `tool` and `sort`."""
    async for page in _pages(store, wanted):
        some = list(page.values())
        async with store.reading() as connection:
            documents = await documents_of(connection, some)
        for key in some:
            if key in documents:
                yield key, documents[key]


async def find_threads(store: ThreadStore, conversation_id: str, tenant: str | None = None) -> tuple[ThreadKey, ...]:
    """Return the threads with this id, their own or their producer's: of each tenant, or only of `tenant`."""
    thread_id, _ = thread_uuid(conversation_id, tenant)
    async with store.reading() as connection:
        if tenant is not None:
            key = ThreadKey.of(thread_id, tenant)
            if await connection.scalar(statements.has_turns(key)):
                return (key,)
            rows = await connection.execute(list_statements.declaring(conversation_id, tenant))
            return tuple(map(thread_of, rows))[:1]
        by_tenant: dict[str | None, ThreadKey] = {}
        having_id = select(*statements.NAME).where(threads.c.thread_id == column_text(thread_id))
        having_id = having_id.order_by(threads.c.tenant).limit(list_statements.MAX_NAMED)
        for query in (having_id, list_statements.declaring(conversation_id, None)):
            for key in map(thread_of, await connection.execute(query)):
                by_tenant.setdefault(key.tenant, key)
    return tuple(by_tenant.values())


async def count_rows(store: ThreadStore) -> Counts:
    """Return the numbers of stored threads, turns and runs. This reads all turns."""
    [counts] = await store.rows(statements.counts())
    return Counts(*map(int, counts))


async def _pages(store: ThreadStore, wanted: ListQuery = ALL) -> AsyncIterator[dict[int, ThreadKey]]:
    """Yield pages of the wanted threads by their ids in the database, in the order of names."""
    order, after = (threads.c.thread_id, threads.c.tenant), ("", "")
    query = select(threads.c.id, *statements.NAME).where(*list_statements.conditions(wanted)).order_by(*order)
    while True:
        rows = await store.rows(query.where(row_of(*order) > row_of(*after)).limit(THREADS_BATCH))
        if not rows:
            return
        yield {row.id: thread_of(row) for row in rows}
        after = rows[-1].thread_id, rows[-1].tenant


async def summaries_of(connection: AsyncConnection, query: Select[Any]) -> dict[int, ThreadSummary]:
    """Return lines of the list of threads, by id and in the order of `query`, which selects rows of `threads`."""
    rows = (await connection.execute(query)).all()
    names: dict[int, list[str]] = {row.id: [] for row in rows}
    labels: dict[int, dict[str, list[str]]] = {}
    if names:
        labels = await labels_of(connection, list(names))
        for thread, name in await connection.execute(list_statements.agent_names(), {"threads": list(names)}):
            names[thread].append(name)
    return {row.id: _summary(row, names[row.id], labels.get(row.id, {})) for row in rows}


def status_text(status: int | None) -> str | None:
    """Return the status of a turn as records have it."""
    return None if status is None else "complete" if status == COMPLETE else "interrupted"


def _summary(row: Row[Any], names: Iterable[str], labels: dict[str, list[str]]) -> ThreadSummary:
    key = thread_of(row)
    return ThreadSummary(
        thread_id=key.thread_id,
        external_id=row.external_id,
        title=row.title or row.prompt,
        agents=tuple(names),
        turns=row.turns,
        status=status_text(row.status),
        tokens=row.total_tokens,
        created_at=row.created_at,
        updated_at=row.updated_at,
        tenant=key.tenant,
        cost_usd=None if row.cost_nano_usd is None else row.cost_nano_usd / NANO,
        model=row.model,
        duration_ms=row.duration_ms,
        labels=labels,
    )


async def documents_of(connection: AsyncConnection, keys: Sequence[ThreadKey]) -> dict[ThreadKey, dict[str, Any]]:
    """Return the documents of those of these threads that are stored, without links to erased threads."""
    await certain(connection)
    texts = list(await connection.scalars(statements.records(keys))) if keys else []
    # In threads: a long conversation would block the event loop for too long.
    records, targets = await asyncio.to_thread(_records_by_thread, texts, keys)
    erased = await erased_of(connection, targets)
    return await asyncio.to_thread(_documents, records, erased)


def _records_by_thread(
    texts: list[bytes], keys: Iterable[ThreadKey]
) -> tuple[dict[ThreadKey, list[TurnRecord]], set[ThreadKey]]:
    """Return the records of each thread, and the threads that they link to. Empties `texts`, to save memory."""
    records: dict[ThreadKey, list[TurnRecord]] = {key: [] for key in keys}
    targets: set[ThreadKey] = set()
    while texts:
        record = record_of(texts.pop())
        tenant = key_of(record).tenant
        targets |= {ThreadKey(link["thread_id"], tenant) for _, link in outgoing(record)}
        for thread_id in {record["thread_id"], *(source for source, _ in outgoing(record))}:
            if (key := ThreadKey(thread_id, tenant)) in records:
                records[key].append(record)
    return records, targets


def _documents(
    records: Mapping[ThreadKey, Sequence[TurnRecord]], erased: set[ThreadKey]
) -> dict[ThreadKey, dict[str, Any]]:
    return {
        key: thread_document(
            key.thread_id,
            [
                without_links(record, {to.thread_id for to in erased if to.tenant == key_of(record).tenant})
                for record in some
            ],
        )
        for key, some in records.items()
        if any(record["thread_id"] == key.thread_id for record in some)
    }


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thread with its newest turn's questions (`turns.pending`), each with its `answer_id`; `since`: epoch ms."""

    thread_id: str
    external_id: str | None
    title: str | None
    tenant: str | None
    turn_id: str
    run_id: str
    agent_id: str
    agent_name: str | None
    dialect: str
    since: int
    asked: list[dict[str, Any]]

    @property
    def thread(self) -> ThreadKey:
        """The thread's key."""
        return ThreadKey.of(self.thread_id, self.tenant)


@dataclass(frozen=True, slots=True)
class WaitingWanted:
    """The wanted threads, None for any; `tenant`: "" for none; `thread`: its `thread_uuid`, and the producer's id."""

    tenant: str | None = None
    agent: str | None = None
    thread: tuple[str, str] | None = None


def with_ids(run_id: str, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a run's questions with their answer ids, which use a question's index if its wire has no id for it."""
    return [{"answer_id": answer_id(run_id, question["id"] or str(n)), **question} for n, question in enumerate(asked)]


async def waiting_threads(store: ThreadStore, wanted: WaitingWanted, limit: int = 100) -> list[Waiting]:
    """Return the threads whose newest turn waits for an answer, the last updated first."""
    query = select(threads).where(WAITING, *of_tenant(wanted.tenant))
    if wanted.agent is not None:
        query = query.where(speaks(wanted.agent))
    if wanted.thread is not None:
        thread_id, external_id = (column_text(text) for text in wanted.thread)
        query = query.where((threads.c.thread_id == thread_id) | (threads.c.external_id == external_id))
    query = query.order_by(threads.c.updated_at.desc(), threads.c.id.desc()).limit(limit)
    waiting = []
    for row in await store.rows(query):
        thread = thread_of(row)
        title = row.title or row.prompt
        known = {**row.asked, "asked": with_ids(row.asked["run_id"], row.asked["asked"])}
        waiting.append(Waiting(thread.thread_id, row.external_id, title, thread.tenant, **known))
    return waiting
