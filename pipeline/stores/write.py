"""One batch of turn records -> the tables, within the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Row as StoredRow
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.retention import Retention
from pipeline.stores import older_statements, statements
from pipeline.stores.holds import held_of
from pipeline.stores.keys import key_text, older_text
from pipeline.stores.leavings import Leaving, remember
from pipeline.stores.notices import delete_turns
from pipeline.stores.rows import RecordRows, Row, record_of, record_rows, starters
from pipeline.stores.schema import agents, links, usage
from pipeline.stores.search_write import adding, with_places
from pipeline.stores.sending import of_rows, of_texts, send
from pipeline.stores.summaries import WriteResult
from pipeline.stores.versions import Batch, known_versions, taken
from pipeline.turns.content import references
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms

FOREVER: Final = Retention()
CHILDREN: Final = (agents, links, usage)
TURNS_AT_ONCE: Final = 100  # that are held in memory while they are moved


async def write(connection: AsyncConnection, batch: Batch, retention: Retention = FOREVER, now: int = 0) -> WriteResult:
    """Upsert turns and replace their child rows.

    Records of erased threads are dropped, and those of threads that only sub-agents of erased threads have; and those
    that are older than the retention, of turns that are not stored and threads that are not held: a replay brings
    nothing back that has expired. The number of statements does not depend on the number of records, but on that of
    such threads.
    """
    threads, others = {rows.thread for rows in batch.values()}, _started_by(batch)
    older = await lock(connection, threads | others)
    # Only while the locks are held: an erasure marks the thread first, and then waits for them.
    erased = await erased_of(connection, threads | others)
    orphans = await _orphans(connection, batch, erased)
    erased = erased & threads | orphans
    for thread in orphans:
        await mark_erased(connection, thread)
        await delete_turns(connection, thread, "deleted")
    if empty := erased | others - threads:
        await connection.execute(statements.delete_empty(sorted(map(key_text, empty))))
    for thread in sorted((older & threads) - erased, key=key_text):
        await take_over(connection, thread)
    result, changed, replaced = await _result(connection, batch, erased, retention=retention, now=now)
    await _apply(connection, changed, replaced)
    if result.expired:
        await _leave([batch[place] for place in result.expired], connection, retention, now)
    return result


async def _leave(refused: Sequence[RecordRows], connection: AsyncConnection, retention: Retention, now: int) -> None:
    """Records that have expired: their large values, which assembly has kept, are to go, too."""
    await connection.execute(statements.delete_empty(sorted({key_text(rows.thread) for rows in refused})))
    for rows in refused:
        if rows.turn["document"] is not None and references(rows.turn["document"]):
            first, last = rows.turn["started_at"], rows.turn["ended_at"]
            before = retention.begin(rows.thread.tenant, now) or 0
            await remember(connection, [Leaving(rows.thread, before, first, last, now)])


async def lock(connection: AsyncConnection, threads: Iterable[ThreadKey]) -> set[ThreadKey]:
    """Make these threads' rows and lock them, with those that an older version may have written for them -> the threads
    for which there are such ones.
    """
    texts = {key_text(thread): thread for thread in threads}
    dialect, wanted = connection.dialect.name, sorted({*texts, *map(older_text, texts.values())})
    added = of_rows(dialect, statements.add_threads(dialect), [{"thread_key": text} for text in sorted(texts)])
    _, locked = await send(connection, [added, of_texts(dialect, statements.lock_threads, wanted)])
    found = {text for text, tenant in locked if tenant is not None}
    if not found:
        return set()
    return {thread for text, thread in texts.items() if (older := older_text(thread)) != text and older in found}


async def take_over(connection: AsyncConnection, thread: ThreadKey, most: int | None = None) -> tuple[int, int]:
    """Move what an older version has stored of a thread to its own key, some `most` turns of it; both rows are locked.
    -> how many turns have left the older row, and how many stay there; all of these only where fewer than `most` left.

    Each turn goes the way of a new record, but keeps the prices that it was stored with. One that would be late stays,
    and is read, where it is, until a record that holds its events takes its place.
    """
    left, kept, after, erased = 0, 0, "", await erased_of(connection, [thread])
    while most is None or left < most:
        found = (await connection.execute(older_statements.some_turns(thread, after, TURNS_AT_ONCE))).all()
        if not found:
            break
        after = found[-1].turn_id
        late = await _move(connection, thread, found, erased)
        left, kept = left + len(found) - late, kept + late
    older = older_text(thread)
    await connection.execute(statements.refresh_threads([older]))
    await connection.execute(statements.delete_empty(sorted({older, key_text(thread)})))
    return left, kept


async def _move(
    connection: AsyncConnection, thread: ThreadKey, found: Sequence[StoredRow[Any]], erased: Collection[ThreadKey]
) -> int:
    """Move these turns, as `older_statements.some_turns` gives them -> the number of those that are late, and stay."""
    prices: dict[str, list[Row]] = {}
    for row in await connection.execute(older_statements.usage_of(thread, [row.turn_id for row in found])):
        fields = {column.key: getattr(row, column.key) for column in usage.c}
        prices.setdefault(row.turn_id, []).append(fields | {"thread_key": key_text(thread)})
    batch = {}
    for place, row in enumerate(found):
        rows = record_rows(record_of(row.facts, row.document))  # its fields in another order than when they came
        same = rows.turn | {"digest": row.digest}
        batch[place] = replace(rows, turn=same, usage=prices.get(row.turn_id, []))
    result, changed, replaced = await _result(connection, batch, erased, moving=True)
    going = [row.turn_id for place, row in enumerate(found) if place not in result.late]
    await connection.execute(older_statements.delete_turns(thread, going))
    await _apply(connection, changed, replaced)
    return len(result.late)


async def compare(
    connection: AsyncConnection, batch: Batch, retention: Retention = FOREVER, now: int = 0
) -> WriteResult:
    """The result that `write` would have, without writing."""
    threads = {rows.thread for rows in batch.values()}
    erased = await erased_of(connection, threads | _started_by(batch))
    erased = erased & threads | await _orphans(connection, batch, erased)
    return (await _result(connection, batch, erased, retention=retention, now=now))[0]


async def _apply(connection: AsyncConnection, changed: Sequence[RecordRows], replaced: Sequence[RecordRows]) -> None:
    """Write these rows; `replaced`: those of them whose turn is stored already."""
    if not changed:
        return
    dialect = connection.dialect.name
    outdated = [{"of_thread": text, "of_turn": turn_id} for text, turn_id in (rows.key for rows in replaced)]
    for table in CHILDREN if outdated else ():
        await connection.execute(statements.delete_children(table), outdated)
    marked, words = await with_places(connection, replaced, changed)
    turns = [row | rows.json for row, rows in zip(marked, changed, strict=True)]
    children = {table: [row for rows in changed for row in getattr(rows, table.name)] for table in CHILDREN}
    calls = [
        of_rows(dialect, statements.upsert_turns(dialect), turns),
        *(of_rows(dialect, statements.ADD_CHILDREN[table], some) for table, some in children.items() if some),
        *adding(dialect, words),
        of_texts(dialect, statements.refresh_threads, sorted({rows.key[0] for rows in changed})),
    ]
    await send(connection, calls)


async def _result(
    connection: AsyncConnection,
    batch: Batch,
    erased: Collection[ThreadKey],
    *,
    moving: bool = False,
    retention: Retention = FOREVER,
    now: int = 0,
) -> tuple[WriteResult, list[RecordRows], list[RecordRows]]:
    """-> the result, the rows that are to be written, and those of them that replace a stored turn. `moving` as in
    `known_versions`.
    """
    live = {place: rows for place, rows in batch.items() if rows.thread not in erased}
    known = await known_versions(connection, live, moving=moving)
    old = [
        place
        for place, rows in live.items()
        if rows.key not in known and retention.expired(rows.thread.tenant, rows.turn["ended_at"], now)
    ]
    held = await held_of(connection, {live[place].thread for place in old})
    expired = tuple(place for place in old if live[place].thread not in held)
    winners, late = taken({place: rows for place, rows in live.items() if place not in expired}, known)
    changed, replaced = list(winners.values()), [rows for key, rows in winners.items() if key in known]
    unchanged = len(batch) - len(changed) - len(late)
    gone = tuple(sorted(erased, key=key_text))
    inserted, updated = len(changed) - len(replaced), len(replaced)
    return WriteResult(inserted, updated, unchanged, gone, tuple(late), expired), changed, replaced


async def erased_of(connection: AsyncConnection, threads: Iterable[ThreadKey]) -> set[ThreadKey]:
    """Those of these threads that are marked as erased."""
    wanted = set(threads)
    texts = sorted({text for thread in wanted for text in (key_text(thread), older_text(thread))})
    [found] = await send(connection, [of_texts(connection.dialect.name, statements.erased_threads, texts)])
    if not found:  # nearly always
        return set()
    exact: dict[str, bool | None] = dict(found)
    return {
        thread
        for thread in wanted
        if key_text(thread) in exact or not exact.get(older_text(thread), True)  # an older version's: of all tenants
    }


async def lives_by(connection: AsyncConnection, thread: ThreadKey, records: Iterable[Row] = ()) -> bool:
    """Whether a thread has nothing but what sub-agents of erased threads said: an erased thread started each of its
    runs. `records`: facts of such as are not stored yet.
    """
    runs: dict[str, set[ThreadKey]] = {}
    for facts in (*records, *await connection.scalars(statements.facts_in(thread))):
        named = {ThreadKey(thread_id, thread.tenant) for thread_id in starters(facts)}
        runs.setdefault(facts["run_id"], set()).update(named)
    erased = await erased_of(connection, set().union(*runs.values()))
    return all(named & erased for named in runs.values())


async def mark_erased(connection: AsyncConnection, thread: ThreadKey) -> None:
    """Mark a thread as erased; a mark that is there already keeps its time."""
    mark = {"thread_key": key_text(thread), "erased_at": now_ms(), "exact": True}
    await connection.execute(statements.add_erased(connection.dialect.name), [mark])


def _started_by(batch: Batch) -> set[ThreadKey]:
    return {thread for rows in batch.values() for thread in rows.started_by}


async def _orphans(connection: AsyncConnection, batch: Batch, erased: Collection[ThreadKey]) -> set[ThreadKey]:
    """The threads of a batch that nothing but sub-agents of erased threads have spoken in: a run of the erased one was
    still under way, or is replayed.
    """
    if not erased:
        return set()
    suspects = {rows.thread for rows in batch.values() if rows.started_by & set(erased)} - set(erased)
    suspects -= await held_of(connection, suspects)
    records = {thread: [rows.turn["facts"] for rows in batch.values() if rows.thread == thread] for thread in suspects}
    return {thread for thread in suspects if await lives_by(connection, thread, records[thread])}
