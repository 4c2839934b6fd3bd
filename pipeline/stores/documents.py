"""Rows of the store -> lines of the list of threads, and ThreadProtocol documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores import statements
from pipeline.stores.rows import record_of, without_links
from pipeline.stores.summaries import ThreadSummary
from pipeline.stores.write import erased_of
from pipeline.turns.thread_document import outgoing, thread_document
from topics.turn_record import TurnRecord


async def summaries_of(connection: AsyncConnection, query: Select[Any]) -> tuple[ThreadSummary, ...]:
    """Rows of the table of threads, as `query` selects them, each with the names of its agents."""
    rows = (await connection.execute(query)).all()
    names: dict[str, list[str]] = {row.thread_id: [] for row in rows}
    for thread_id, name in await connection.execute(statements.agent_names(list(names))):
        names[thread_id].append(name)
    return tuple(
        ThreadSummary(
            thread_id=row.thread_id,
            external_id=row.external_id,
            title=row.title or row.prompt,
            agents=tuple(names[row.thread_id]),
            turns=row.turns,
            status=row.status,
            tokens=row.total_tokens,
            created_at=row.created_at,
            updated_at=row.updated_at,
            tenant=row.tenant,
        )
        for row in rows
    )


async def documents_of(
    connection: AsyncConnection, ids: Sequence[str], tenant: str | None = None
) -> dict[str, dict[str, Any]]:
    """thread_id -> document, of those that are stored; links to erased threads are left out."""
    records: dict[str, list[TurnRecord]] = {id_: [] for id_ in ids}
    targets: set[str] = set()
    for facts, document in await connection.execute(statements.records(ids)):
        record = record_of(facts, document)
        targets |= {link["thread_id"] for _, link in outgoing(record)}
        if tenant is not None and record.get("tenant") != tenant:
            continue
        for thread_id in {record["thread_id"], *(source for source, _ in outgoing(record))}:
            if thread_id in records:
                records[thread_id].append(record)
    erased = await erased_of(connection, sorted(targets))
    records = {id_: [without_links(record, erased) for record in found] for id_, found in records.items()}
    return {
        thread_id: thread_document(thread_id, found)
        for thread_id, found in records.items()
        if any(record["thread_id"] == thread_id for record in found)
    }
