"""Writes a batch of turn records to the tables, within the caller's transaction: those that remove no stored event.

A version of a run is compared with the stored turns of that run (`pipeline.turns.event_coverage`): with the turn that
it would replace, and with the run's first turns, which stand for what the store has of the run. So a version that lacks
stored events, and has events that the stored turns lack, is late as a whole: that includes turns that would be new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.policies.retention import Retention
from pipeline.stores.database.engine import search_choice
from pipeline.stores.database.held_and_erased import Remnant, add_erased, erased_of, held_of, remember
from pipeline.stores.database.ids import new_ids
from pipeline.stores.database.keys import id_and_tenant, key_text
from pipeline.stores.database.schema import turns
from pipeline.stores.database.sending import certain, of_columns, portions, send
from pipeline.stores.outbound import notices
from pipeline.stores.outbound.deliveries import forget_deliveries
from pipeline.stores.threads import statements
from pipeline.stores.threads.rows import RecordRows, ThreadRow, TurnKey, rank_of, record_of, starters, with_turns
from pipeline.stores.threads.summaries import WriteResult
from pipeline.stores.threads.table_that_follows import Book, PlacedTurn
from pipeline.turns.content import references
from pipeline.turns.event_coverage import Ranges, Verdict, Version, ranges_of
from pipeline.turns.run_tree import may_fork
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.clock import now_ms

FOREVER: Final = Retention()
DELETED, EXPIRED = "deleted", "expired"  # why turns are deleted
LATEST: Final = ("status", "asked", "model", "duration_ms")  # of a thread: values of its last turns
NAMED: Final = ("external_id", "title", "prompt")  # of the last, or the first, turn that has it

TURN: Final = tuple(column.name for column in turns.c if column.name not in ("id", "thread", "searched"))
values_of_turn: Final = itemgetter(*TURN)

Threads = Mapping[ThreadKey, ThreadRow]
Batch = Mapping[int, RecordRows]  # records of a batch by their index in it, ascending


async def write(
    connection: AsyncConnection, batch: Batch, books: Sequence[Book], retention: Retention = FOREVER, now: int = 0
) -> WriteResult:
    """Store turns, and replace the rows of `books` that follow from them.

    Dropped are records of erased threads, records of threads in which only sub-agents of erased threads have spoken,
    and records older than the retention, of turns that are not stored and threads that are not held: a replay restores
    nothing that has expired. The number of statements does not depend on the number of records, but on the number of
    such threads.
    """
    keys, others = _threads_of(batch)
    threads = await lock(connection, keys | others)
    # Read after taking the locks: an erasure marks the thread first, and then waits for them.
    erased = await erased_of(connection, keys | others)
    orphans = await _orphans(connection, batch, erased, threads) if erased else set()
    erased = erased & keys | orphans
    for thread in orphans:
        await add_mark(connection, thread)
    if orphans:
        await delete_turns(connection, orphans, DELETED, books)
    result, changed, known = await _result(connection, batch, erased, threads, retention, now)
    if changed:
        await _apply(connection, changed, known, threads, books)
    empty = erased | others
    for index in result.expired:
        empty.add(batch[index].thread)
    if empty:
        await connection.execute(statements.delete_empty({threads[key].id for key in empty}))
    for index in result.expired:
        await _leave(connection, batch[index], retention, now)
    return result


async def _leave(connection: AsyncConnection, refused: RecordRows, retention: Retention, now: int) -> None:
    """Remember an expired record: its large values, which assembly has stored, must be deleted, too."""
    if refused.record["turn"] is not None and references(refused.record["turn"]):
        first, last = refused.turn["started_at"], refused.turn["ended_at"]
        before = retention.begin(refused.thread.tenant, now) or 0
        await remember(connection, [Remnant(refused.thread, before, first, last, now)])


async def lock(connection: AsyncConnection, keys: Collection[ThreadKey]) -> dict[ThreadKey, ThreadRow]:
    """Lock these threads' rows, create missing ones, and return them."""
    dialect, rows = connection.dialect.name, dict[ThreadKey, ThreadRow]()
    await certain(connection)
    if keys and statements.locks_all(dialect):  # then few threads need a statement each
        rows = _by_key(keys, (await send(connection, [statements.threads_of(dialect, keys)]))[-1])
    if missing := {*keys} - rows.keys():
        calls = [statements.add_threads(dialect, missing), statements.threads_of(dialect, missing)]
        rows |= _by_key(missing, (await send(connection, calls))[-1])
    return rows


def _by_key(keys: Iterable[ThreadKey], columns_of: Iterable[Sequence[Any]]) -> dict[ThreadKey, ThreadRow]:
    rows = {(thread_id, tenant): ThreadRow(*columns) for thread_id, tenant, *columns in columns_of}
    return {key: rows[name] for key in keys if (name := id_and_tenant(key)) in rows}


async def compare(
    connection: AsyncConnection, batch: Batch, retention: Retention = FOREVER, now: int = 0
) -> WriteResult:
    """Return the result that `write` would have, without writing."""
    await certain(connection)
    keys, others = _threads_of(batch)
    erased = await erased_of(connection, keys | others)
    [rows] = await send(connection, [statements.threads_of(connection.dialect.name, keys)])
    threads = _by_key(keys, rows)
    erased = erased & keys | (await _orphans(connection, batch, erased, threads) if erased else set())
    return (await _result(connection, batch, erased, threads, retention, now))[0]


async def _result(
    connection: AsyncConnection,
    batch: Batch,
    erased: Collection[ThreadKey],
    threads: Threads,
    retention: Retention,
    now: int,
) -> tuple[WriteResult, list[RecordRows], dict[TurnKey, Stored]]:
    """Return the result, the records to be written, and the stored turns of their runs."""
    live = {index: rows for index, rows in batch.items() if rows.thread not in erased} if erased else batch
    known = await known_versions(connection, live, threads)
    old: list[int] = []
    for index, rows in live.items() if retention != FOREVER else ():
        if rows.key not in known and retention.expired(rows.thread.tenant, rows.turn["ended_at"], now):
            old.append(index)
    held = await held_of(connection, {live[index].thread for index in old}) if old else set()
    expired = dict.fromkeys([index for index in old if live[index].thread not in held])
    young = {index: rows for index, rows in live.items() if index not in expired} if expired else live
    winners, late = taken(young, {key: turn.version for key, turn in known.items()})
    updated = len(winners.keys() & known.keys())
    unchanged = len(batch) - len(winners) - len(late)
    gone = tuple(sorted(erased, key=key_text))
    differing = sum(row["computed_nano_usd"] is not None for rows in winners.values() for row in rows.usage)
    result = WriteResult(len(winners) - updated, updated, unchanged, gone, tuple(late), tuple(expired), differing)
    return result, list(winners.values()), known


async def _apply(
    connection: AsyncConnection,
    changed: Sequence[RecordRows],
    known: Mapping[TurnKey, Stored],
    threads: Threads,
    books: Sequence[Book],
) -> None:
    """Write these records; those of turns in `known` replace the stored ones."""
    dialect, searched = connection.dialect.name, search_choice(connection) != "off"
    replaced, times = dict[int, int](), list[int]()
    for rows in changed:
        if rows.key in known:
            replaced[known[rows.key].id] = threads[rows.thread].id
        else:
            times.append(rows.turn["started_at"])
    before: list[Any] = [None] * len(books)
    if replaced:
        before = [book.replaced and await book.replaced(connection, replaced) for book in books]
    new_numbers = iter(await new_ids(connection, times))
    new: dict[ThreadKey, list[RecordRows]] = defaultdict(list)
    placed = []
    for rows in changed:
        if rows.key in known:
            id_ = known[rows.key].id
        else:
            id_ = next(new_numbers)
            new[rows.thread].append(rows)
        placed.append(PlacedTurn(id_, threads[rows.thread].id, rows))
    columns: dict[str, Sequence[Any]] = {
        "id": [turn.id for turn in placed],
        "thread": [turn.thread for turn in placed],
        "searched": [searched] * len(placed),
    }
    columns |= zip(TURN, zip(*(values_of_turn(rows.turn) for rows in changed), strict=True), strict=True)
    calls = [of_columns(dialect, statements.put_turns(dialect), columns)]
    for book, shared in zip(books, before, strict=True):
        if book.calls is not None:
            calls += await book.calls(connection, placed, shared)
    derived, ready = set(replaced.values()), []  # threads whose rows are derived again from all turns; other rows
    late = []  # sets the columns of which a late turn may be the newest
    for key, added in new.items():
        if threads[key].id not in derived:
            row, is_late = with_turns(threads[key], added)
            ready.append(row)
            if is_late:
                names = [*LATEST, *(name for name in NAMED if any(rows.turn[name] for rows in added))]
                late.append(statements.latest_values(dialect, row.id, names))
    if ready:
        calls.append(statements.put_threads(dialect, ready))
    await send(connection, [*calls, *late])
    if derived:
        await connection.execute(statements.refresh_threads(derived))
        every = (*LATEST, *NAMED)
        await send(connection, [statements.latest_values(dialect, thread, every) for thread in sorted(derived)])
        forking = {threads[rows.thread].id for rows in changed if may_fork(rows.record)} & derived
        if forking:
            await connection.execute(statements.set_may_fork(forking))
    if replaced:
        await _forget_unused(connection, before, books)


async def _forget_unused(connection: AsyncConnection, before: Sequence[Any], books: Sequence[Book]) -> None:
    for book, shared in zip(books, before, strict=True):
        if book.unused is not None and shared:
            await book.unused(connection, shared)


async def delete_turns(
    connection: AsyncConnection, keys: Collection[ThreadKey], reason: str, books: Sequence[Book]
) -> None:
    """Delete the turns of threads with all their rows, and leave a notice of each; `reason`: DELETED or EXPIRED."""
    keys = list(keys)
    before = [book.deleted and await book.deleted(connection, keys, reason) for book in books]
    for key in keys:
        gone = await connection.execute(delete(turns).where(turns.c.thread == statements.number_of(key)))
        if gone.rowcount:
            await notices.add(connection, [notices.deleted(key, reason, now_ms())])
    await _forget_unused(connection, before, books)


async def lives_by(connection: AsyncConnection, thread: ThreadKey, records: Iterable[TurnRecord] = ()) -> bool:
    """Return True if erased threads started all runs of a thread, and of `records`, which are not stored yet."""
    runs: dict[str, set[ThreadKey]] = {}
    texts = await connection.scalars(select(turns.c.record).where(turns.c.thread == statements.number_of(thread)))
    for record in (*records, *map(record_of, texts)):
        named = {ThreadKey(thread_id, thread.tenant) for thread_id in starters(record)}
        runs.setdefault(record["run_id"], set()).update(named)
    erased = await erased_of(connection, set().union(*runs.values()))
    return all(named & erased for named in runs.values())


async def _orphans(
    connection: AsyncConnection, batch: Batch, erased: Collection[ThreadKey], threads: Threads
) -> set[ThreadKey]:
    """Return the threads of a batch in which only sub-agents of these erased threads have spoken.

    And the new ones that are made of traces of which something was erased: late spans make them of the erased words.
    """
    made_anew: dict[ThreadKey, bool] = {}
    for rows in batch.values():
        if (known := threads.get(rows.thread)) is None or known.newest is None:
            made_anew[rows.thread] = made_anew.get(rows.thread, True) and not rows.made_of.isdisjoint(erased)
    # A run of the erased thread was still open, or is replayed.
    suspects = {rows.thread for rows in batch.values() if rows.started_by & set(erased)} - set(erased)
    suspects -= await held_of(connection, suspects)
    records = {thread: [rows.record for rows in batch.values() if rows.thread == thread] for thread in suspects}
    orphans = {thread for thread in suspects if await lives_by(connection, thread, records[thread])}
    return orphans | {thread for thread, is_made_anew in made_anew.items() if is_made_anew} - set(erased)


async def add_mark(connection: AsyncConnection, thread: ThreadKey, *traces: ThreadKey) -> None:
    """Mark a thread as erased, and traces, and delete its queued deliveries; an existing mark keeps its time."""
    now = now_ms()
    marks = [{"thread_key": key_text(key), "name": list(key), "erased_at": now} for key in (thread, *traces)]
    await connection.execute(add_erased(connection.dialect.name), marks)
    await forget_deliveries(connection, thread)


def _threads_of(batch: Batch) -> tuple[set[ThreadKey], set[ThreadKey]]:
    """Return the threads of a batch, and those that have started its runs, or have their spans."""
    keys, others = set[ThreadKey](), set[ThreadKey]()
    for rows in batch.values():
        keys.add(rows.thread)
        others |= rows.started_by | rows.made_of
    return keys, others


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored turn: its id in the database, and its version, with empty ranges if they are not needed."""

    id: int
    version: Version


def taken(batch: Batch, known: Mapping[TurnKey, Version]) -> tuple[dict[TurnKey, RecordRows], list[int]]:
    """Return the records to be stored, by turn, and indexes of late records; `known`: the families' stored turns."""
    stored, winners, late = dict(known), dict[TurnKey, RecordRows](), list[int]()
    for index, rows in batch.items():
        version = rows.version
        verdict = _verdict(version, stored.get(rows.key), [stored[key] for key in rows.family if key in stored])
        if verdict is Verdict.REPLACES:
            stored[rows.key], winners[rows.key] = version, rows
        elif verdict is Verdict.LATE:
            late.append(index)
    return winners, late


def _verdict(version: Version, stored: Version | None, family: Sequence[Version]) -> Verdict:
    """Compare a version with the `stored` version of its turn, and `family`: that and the run's first turns."""
    if stored is not None and (version.rank == stored.rank or version.beside(stored) is Verdict.KNOWN):
        return Verdict.KNOWN
    if any(version.beside(other) is Verdict.LATE for other in family):
        return Verdict.LATE
    if stored is None and version.headless and not all(version.contains(other) for other in family):
        return Verdict.KNOWN  # the end of a stored run, cut into other turns
    return Verdict.REPLACES


async def known_versions(connection: AsyncConnection, batch: Batch, threads: Threads) -> dict[TurnKey, Stored]:
    """Return the stored turns in the batch's families, with empty ranges where nothing has to be compared."""
    places = {row.id: key for key, row in threads.items() if row.newest is not None}
    there = {*places.values()}
    wanted = {key for rows in batch.values() for key in rows.family if key[0] in there}
    if not wanted:
        return {}
    [rows_of_turns] = await send(connection, [statements.known_turns(connection.dialect.name, wanted, threads)])
    known = {
        (places[thread], bytes(turn_id)): Stored(id_, Version((), rank_of(events, status, revision, bytes(digest))))
        for thread, turn_id, id_, events, status, revision, digest in rows_of_turns
    }
    compared = {
        key
        for rows in batch.values()
        if rows.key not in known or known[rows.key].version.rank != rows.version.rank
        for key in rows.family
        if key in known
    }
    if not compared:
        return known
    ranges = await _ranges(connection, {known[key].id for key in compared})
    return known | {
        key: Stored(known[key].id, Version(ranges[known[key].id], known[key].version.rank)) for key in compared
    }


async def _ranges(connection: AsyncConnection, ids: set[int]) -> dict[int, Ranges]:
    """Return the ranges of events of these turns."""
    by_id: dict[int, Ranges] = {}
    for some in portions(sorted(ids)):
        for id_, record in await connection.execute(statements.records_by_id(some)):
            by_id[id_] = ranges_of(record_of(record))
    return by_id
