"""Rows of the store -> lines of the list of threads, and ThreadProtocol documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row, Select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores import list_statements, older_statements, statements
from pipeline.stores.keys import exact, key_of, newer_text
from pipeline.stores.rows import record_of, without_links
from pipeline.stores.summaries import ThreadSummary
from pipeline.stores.write import erased_of
from pipeline.turns.column_text import column_text
from pipeline.turns.thread_document import outgoing, thread_document
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord


async def summaries_of(connection: AsyncConnection, query: Select[Any]) -> dict[str, ThreadSummary]:
    """Rows of the table of threads, as `query` selects them, by `thread_key`; each with the names of its agents."""
    rows = (await connection.execute(query)).all()
    keys = await keys_of(connection, [(row.thread_key, row.tenant) for row in rows])
    names: dict[str, list[str]] = {row.thread_key: [] for row in rows}
    for text, name in await connection.execute(list_statements.agent_names(list(names))):
        names[text].append(name)
    found = {}
    for row in rows:
        newest = (key for key in keys[row.thread_key] if column_text(key.tenant) == row.tenant)
        key = next(newest, ThreadKey.of(ThreadKey.parse(row.thread_key).thread_id, row.tenant))
        found[row.thread_key] = _summary(row, key, names[row.thread_key])
    return found


async def summary_of(connection: AsyncConnection, key: ThreadKey) -> ThreadSummary | None:
    """One thread's line; None where it is not stored."""
    found = await summaries_of(connection, list_statements.line(key))
    if found or not await connection.scalar(statements.of_thread(key)):
        return next(iter(found.values()), None)
    row = (await connection.execute(older_statements.line(key))).one()
    return _summary(row, key, [name for _, name in await connection.execute(older_statements.agent_names(key))])


def _summary(row: Row[Any], key: ThreadKey, names: Iterable[str]) -> ThreadSummary:
    return ThreadSummary(
        thread_id=key.thread_id,
        external_id=row.external_id,
        title=row.title or row.prompt,
        agents=tuple(names),
        turns=row.turns,
        status=row.status,
        tokens=row.total_tokens,
        created_at=row.created_at,
        updated_at=row.updated_at,
        tenant=key.tenant,
    )


async def documents_of(connection: AsyncConnection, keys: Sequence[ThreadKey]) -> dict[ThreadKey, dict[str, Any]]:
    """Thread -> document, of those that are stored; links to erased threads are left out."""
    records: dict[ThreadKey, list[TurnRecord]] = {key: [] for key in keys}
    targets: set[ThreadKey] = set()
    for facts, document in await connection.execute(statements.records(keys)):
        record = record_of(facts, document)
        tenant = key_of(record).tenant
        targets |= {ThreadKey(link["thread_id"], tenant) for _, link in outgoing(record)}
        for thread_id in {record["thread_id"], *(source for source, _ in outgoing(record))}:
            if (key := ThreadKey(thread_id, tenant)) in records:
                records[key].append(record)
    erased = await erased_of(connection, targets)
    return {
        key: thread_document(key.thread_id, _shown(found, erased))
        for key, found in records.items()
        if any(record["thread_id"] == key.thread_id for record in found)
    }


def _shown(records: Iterable[TurnRecord], erased: set[ThreadKey]) -> list[TurnRecord]:
    """A tenant's records without their links to erased threads of its own."""
    return [
        without_links(record, {key.thread_id for key in erased if key.tenant == key_of(record).tenant})
        for record in records
    ]


async def keys_of(connection: AsyncConnection, rows: Sequence[tuple[str, str | None]]) -> dict[str, list[ThreadKey]]:
    """thread_key and tenant of rows of `threads` -> by thread_key: the threads of the row. That is one, but for rows of
    an older version, which may hold turns of several tenants.
    """
    older = sorted(text for text, tenant in rows if tenant is not None and "/" not in text)
    found: dict[str, list[ThreadKey]] = {text: [] for text, _ in rows}
    columns = [(text, None) for text, _ in rows if text not in older]
    if older:
        columns += (tuple(row) for row in await connection.execute(older_statements.tenants_of(older)))
    for text, tenant in sorted(columns, key=lambda row: (row[0], row[1] or "")):
        key = exact(text if not tenant else newer_text(text, tenant))
        if key is None:  # an escape or a hash stands in the column: the record has the tenant itself
            facts = await connection.scalar(statements.some_facts(text, tenant))
            key = key_of(facts) if facts is not None else ThreadKey.of(text.partition("/")[0], tenant)
        if key not in found[text]:
            found[text].append(key)
    return found


async def keys_in(connection: AsyncConnection, query: Select[Any]) -> list[ThreadKey]:
    """The threads of the rows of `threads` whose thread_key and tenant `query` selects, each once."""
    rows = [(row.thread_key, row.tenant) for row in await connection.execute(query)]
    return list(dict.fromkeys(key for keys in (await keys_of(connection, rows)).values() for key in keys))
