"""Conversion of the store's rows to lines of the list of threads, and to ThreadProtocol documents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, Select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.erased import erased_of
from pipeline.stores.database.keys import key_of, thread_of
from pipeline.stores.database.sending import certain
from pipeline.stores.threads import list_statements, statements
from pipeline.stores.threads.rows import COMPLETE, record_of, without_links
from pipeline.stores.threads.summaries import ThreadSummary
from pipeline.turns.thread_document import outgoing, thread_document
from pipeline.turns.tokens import NANO
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord


async def summaries_of(connection: AsyncConnection, query: Select[Any]) -> dict[int, ThreadSummary]:
    """Return lines of the list of threads by their ids in the database, in the order of `query`.

    `query` selects rows of `threads`; each line has the names of its agents.
    """
    rows = (await connection.execute(query)).all()
    names: dict[int, list[str]] = {row.id: [] for row in rows}
    if names:
        for thread, name in await connection.execute(list_statements.agent_names(list(names))):
            names[thread].append(name)
    return {row.id: _summary(row, names[row.id]) for row in rows}


def status_text(status: int | None) -> str | None:
    """Return the status of a turn as records have it."""
    return None if status is None else "complete" if status == COMPLETE else "interrupted"


def _summary(row: Row[Any], names: Iterable[str]) -> ThreadSummary:
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
    )


async def documents_of(connection: AsyncConnection, keys: Sequence[ThreadKey]) -> dict[ThreadKey, dict[str, Any]]:
    """Return the documents of these threads, as far as they are stored, without links to erased threads.

    The documents are built in a thread: a long conversation would block the event loop for too long.
    """
    await certain(connection)
    texts = list(await connection.scalars(statements.records(keys))) if keys else []
    records, targets = await asyncio.to_thread(_records_by_thread, texts, keys)
    erased = await erased_of(connection, targets)
    return await asyncio.to_thread(_documents, records, erased)


def _records_by_thread(
    texts: list[str], keys: Iterable[ThreadKey]
) -> tuple[dict[ThreadKey, list[TurnRecord]], set[ThreadKey]]:
    """Return the records of each thread, and the threads that they link to.

    Empties `texts`, since both together would take much memory.
    """
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
        key: thread_document(key.thread_id, _shown(found, erased))
        for key, found in records.items()
        if any(record["thread_id"] == key.thread_id for record in found)
    }


def _shown(records: Iterable[TurnRecord], erased: set[ThreadKey]) -> list[TurnRecord]:
    """Return a tenant's records without links to the tenant's erased threads."""
    return [
        without_links(record, {key.thread_id for key in erased if key.tenant == key_of(record).tenant})
        for record in records
    ]
