"""One batch of turn records -> the tables, within the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores import statements
from pipeline.stores.rows import RecordRows, Row, record_rows
from pipeline.stores.schema import agents, links, usage
from pipeline.stores.summaries import WriteResult
from topics.turn_record import TurnRecord

CHILDREN: Final = (agents, links, usage)
KEYS_AT_ONCE: Final = 1000  # in one IN list; drivers take some 32,000 parameters a statement

Key = tuple[str, str]
T = TypeVar("T")


def best_of(records: Iterable[TurnRecord]) -> dict[Key, RecordRows]:
    """(thread_id, turn_id) -> rows of the record that wins within the batch."""
    best: dict[Key, RecordRows] = {}
    for rows in map(record_rows, records):
        if rows.key not in best or rows.rank > best[rows.key].rank:
            best[rows.key] = rows
    return best


async def write(connection: AsyncConnection, best: dict[Key, RecordRows]) -> WriteResult:
    """Upsert turns and replace their child rows; `unchanged` counts records that did not rank above the stored ones.

    Records of erased threads are dropped. The number of statements does not depend on the number of records.
    """
    ids = sorted({thread_id for thread_id, _ in best})
    await connection.execute(statements.add_threads(connection.dialect.name), [{"thread_id": id_} for id_ in ids])
    for some in _portions(ids):
        await connection.execute(statements.lock_threads(some))
    # Only while the locks are held: an erasure marks the thread first, and then waits for them.
    erased = await erased_of(connection, ids)
    if erased:
        await connection.execute(statements.delete_empty(sorted(erased)))
        best = {key: rows for key, rows in best.items() if key[0] not in erased}
    changed, replaced = await _winners(connection, best)
    if changed:
        await connection.execute(statements.upsert_turns(connection.dialect.name), [rows.turn for rows in changed])
        await _replace_children(connection, replaced, changed)
        for some in _portions(sorted({thread_id for thread_id, _ in (rows.key for rows in changed)})):
            await connection.execute(statements.refresh_threads(some))
    unchanged = len(best) - len(changed)
    return WriteResult(len(changed) - len(replaced), len(replaced), unchanged, tuple(sorted(erased)))


async def compare(connection: AsyncConnection, best: dict[Key, RecordRows]) -> WriteResult:
    """The result that `write` would have, without writing."""
    erased = await erased_of(connection, sorted({thread_id for thread_id, _ in best}))
    best = {key: rows for key, rows in best.items() if key[0] not in erased}
    changed, replaced = await _winners(connection, best)
    inserted = len(changed) - len(replaced)
    return WriteResult(inserted, len(replaced), len(best) - len(changed), tuple(sorted(erased)))


async def _winners(
    connection: AsyncConnection, best: dict[Key, RecordRows]
) -> tuple[list[RecordRows], list[RecordRows]]:
    """-> the rows that rank above the stored ones, and those of them that replace a stored turn."""
    known: dict[Key, tuple[bool, int, int, bool, str]] = {}
    for some in _portions([turn_id for _, turn_id in best]):
        for thread_id, turn_id, *rank in await connection.execute(statements.known_turns(some)):
            known[thread_id, turn_id] = (*rank,)
    changed = [rows for key, rows in best.items() if key not in known or rows.rank > known[key]]
    return changed, [rows for rows in changed if rows.key in known]


async def erased_of(connection: AsyncConnection, thread_ids: Sequence[str]) -> set[str]:
    """Those of these threads that are marked as erased."""
    found: set[str] = set()
    for some in _portions(thread_ids):
        found.update(await connection.scalars(statements.erased_threads(some)))
    return found


async def _replace_children(
    connection: AsyncConnection, replaced: Sequence[RecordRows], changed: Sequence[RecordRows]
) -> None:
    outdated = [{"of_thread": thread_id, "of_turn": turn_id} for thread_id, turn_id in (rows.key for rows in replaced)]
    for table in CHILDREN:
        if outdated:
            await connection.execute(statements.delete_children(table), outdated)
        added: list[Row] = [row for rows in changed for row in getattr(rows, table.name)]
        if added:
            await connection.execute(insert(table), added)


def _portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + KEYS_AT_ONCE] for start in range(0, len(items), KEYS_AT_ONCE))
