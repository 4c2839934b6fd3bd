"""Writes one batch of turn records to the tables, within the caller's transaction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.policies.retention import Retention
from pipeline.stores.database.erased import add_erased, erased_of
from pipeline.stores.database.keys import Agent, UsageNames, id_and_tenant, key_text
from pipeline.stores.database.names import INSERT, ids_of
from pipeline.stores.database.schema import links, price_sources, turn_requests, usage
from pipeline.stores.database.sending import certain, of_rows, send
from pipeline.stores.database.turn_ids import new_ids
from pipeline.stores.database.unused_names import forget_agents, forget_names, forget_requests
from pipeline.stores.outbound import notices
from pipeline.stores.outbound.deliveries import forget_deliveries
from pipeline.stores.search.write import forget_words, kinds_of, words_calls
from pipeline.stores.threads import lookups, statements
from pipeline.stores.threads.feedback import delete_feedback
from pipeline.stores.threads.holds import held_of
from pipeline.stores.threads.remnants import Remnant, remember
from pipeline.stores.threads.requests import request_rows
from pipeline.stores.threads.rows import RecordRows, Row, TurnKey, agents_of, record_of, starters
from pipeline.stores.threads.summaries import WriteResult
from pipeline.stores.threads.thread_rows import ThreadRow, with_turns
from pipeline.stores.threads.versions import Batch, Stored, known_versions, taken
from pipeline.turns.content import references
from pipeline.turns.requests import prompt_of
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.clock import now_ms

FOREVER: Final = Retention()
CHILDREN: Final = (links, usage, turn_requests)
OF_RESPONSE: Final = tuple(  # columns of `usage` that a row contains unchanged
    column.name for column in usage.c if column.name not in ("turn", "thread", "names", "price_source")
)

Threads = Mapping[ThreadKey, ThreadRow]


async def write(connection: AsyncConnection, batch: Batch, retention: Retention = FOREVER, now: int = 0) -> WriteResult:
    """Store turns, and replace their child rows.

    Dropped are records of erased threads, records of threads in which only sub-agents of erased threads have spoken,
    and records older than the retention, of turns that are not stored and threads that are not held: a replay restores
    nothing that has expired. The number of statements does not depend on the number of records, but on the number of
    such threads.
    """
    keys, others = {rows.thread for rows in batch.values()}, _started_by(batch)
    threads = await lock(connection, keys | others)
    # Read after taking the locks: an erasure marks the thread first, and then waits for them.
    erased = await erased_of(connection, keys | others)
    orphans = await _orphans(connection, batch, erased)
    erased = erased & keys | orphans
    for thread in orphans:
        await add_mark(connection, thread)
    await delete_turns(connection, orphans, "deleted")
    result, changed, known = await _result(connection, batch, erased, threads, retention, now)
    await _apply(connection, changed, known, threads)
    if empty := erased | others | {batch[place].thread for place in result.expired}:
        await connection.execute(statements.delete_empty({threads[key].id for key in empty}))
    for place in result.expired:
        await _leave(connection, batch[place], retention, now)
    return result


async def _leave(connection: AsyncConnection, refused: RecordRows, retention: Retention, now: int) -> None:
    """Remember an expired record: its large values, which assembly has stored, must be deleted, too."""
    if refused.record["turn"] is not None and references(refused.record["turn"]):
        first, last = refused.turn["started_at"], refused.turn["ended_at"]
        before = retention.begin(refused.thread.tenant, now) or 0
        await remember(connection, [Remnant(refused.thread, before, first, last, now)])


async def lock(connection: AsyncConnection, keys: Collection[ThreadKey]) -> dict[ThreadKey, ThreadRow]:
    """Lock these threads' rows, create missing ones, and return them."""
    dialect = connection.dialect.name
    await certain(connection)
    calls = [lookups.add_threads(dialect, keys), lookups.threads_of(dialect, keys)]
    return _by_key(keys, (await send(connection, calls))[-1])


async def stored_threads(connection: AsyncConnection, keys: Collection[ThreadKey]) -> dict[ThreadKey, ThreadRow]:
    """Return the rows of those of these threads that exist."""
    if not keys:
        return {}
    [found] = await send(connection, [lookups.threads_of(connection.dialect.name, keys)])
    return _by_key(keys, found)


def _by_key(keys: Iterable[ThreadKey], found: Iterable[Sequence[Any]]) -> dict[ThreadKey, ThreadRow]:
    rows = {(thread_id, tenant): ThreadRow(*columns) for thread_id, tenant, *columns in found}
    return {key: rows[name] for key in keys if (name := id_and_tenant(key)) in rows}


async def compare(
    connection: AsyncConnection, batch: Batch, retention: Retention = FOREVER, now: int = 0
) -> WriteResult:
    """Return the result that `write` would have, without writing."""
    await certain(connection)
    keys = {rows.thread for rows in batch.values()}
    erased = await erased_of(connection, keys | _started_by(batch))
    erased = erased & keys | await _orphans(connection, batch, erased)
    threads = await stored_threads(connection, keys)
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
    live = {place: rows for place, rows in batch.items() if rows.thread not in erased}
    known = await known_versions(connection, live, threads)
    old = [
        place
        for place, rows in live.items()
        if rows.key not in known and retention.expired(rows.thread.tenant, rows.turn["ended_at"], now)
    ]
    held = await held_of(connection, {live[place].thread for place in old})
    expired = tuple(place for place in old if live[place].thread not in held)
    gone_by = set(expired)
    young = {place: rows for place, rows in live.items() if place not in gone_by}
    winners, late = taken(young, {key: one.version for key, one in known.items()})
    updated = sum(key in known for key in winners)
    unchanged = len(batch) - len(winners) - len(late)
    gone = tuple(sorted(erased, key=key_text))
    result = WriteResult(len(winners) - updated, updated, unchanged, gone, tuple(late), expired)
    return result, list(winners.values()), known


async def _apply(
    connection: AsyncConnection, changed: Sequence[RecordRows], known: Mapping[TurnKey, Stored], threads: Threads
) -> None:
    """Write these records; those of turns in `known` replace the stored ones."""
    if not changed:
        return
    dialect = connection.dialect.name
    added = [rows for rows in changed if rows.key not in known]
    replaced = {known[rows.key].id: rows.thread for rows in changed if rows.key in known}
    names, asked = set[int](), set[int]()
    if replaced:
        names = set(await connection.scalars(statements.names_of(sorted(replaced))))
        asked = set(await connection.scalars(statements.requests_of(sorted(replaced))))
    fewer = await _forget(connection, replaced, threads)
    ids = await new_ids(connection, [rows.turn["started_at"] for rows in added])
    own = {key: one.id for key, one in known.items()} | {rows.key: one for rows, one in zip(added, ids, strict=True)}
    placed = [(own[rows.key], threads[rows.thread].id, rows) for rows in changed]
    kinds = kinds_of(connection)
    turns = [{"id": id_, "thread": thread, "searched": bool(kinds), **rows.turn} for id_, thread, rows in placed]
    calls = [of_rows(dialect, statements.put_turns(dialect), turns)]
    if some := [{"turn": id_, **link} for id_, _, rows in placed for link in rows.links]:
        calls.append(of_rows(dialect, statements.ADD[links], some))
    if some := await _usage_rows(connection, placed):
        calls.append(of_rows(dialect, statements.ADD[usage], some))
    more = Counter((agent, threads[rows.thread].id) for rows in changed for agent in rows.agents)
    calls += await _agents_calls(connection, more, fewer)
    if some := await request_rows(connection, [(id_, rows) for id_, _, rows in placed if rows.requests]):
        calls.append(of_rows(dialect, statements.ADD[turn_requests], some))
    calls += words_calls(dialect, [(id_, rows) for id_, _, rows in placed], kinds)
    new: dict[ThreadKey, list[RecordRows]] = defaultdict(list)
    for rows in added:
        new[rows.thread].append(rows)
    derived = set(replaced.values())
    rows_of_threads = {key: with_turns(threads[key], some) for key, some in new.items() if key not in derived}
    if ready := [row for row in rows_of_threads.values() if row is not None]:
        calls.append(lookups.put_threads(dialect, ready))
    await send(connection, calls)
    if again := derived | {key for key, row in rows_of_threads.items() if row is None}:
        await connection.execute(statements.refresh_threads([threads[key].id for key in again]))
    await forget_names(connection, names)
    await forget_requests(connection, asked)


async def _forget(
    connection: AsyncConnection, replaced: Mapping[int, ThreadKey], threads: Threads
) -> Counter[tuple[Agent, int]]:
    """Delete the child rows of these turns, which are replaced; return how often each agent spoke in which thread."""
    fewer: Counter[tuple[Agent, int]] = Counter()
    if not replaced:
        return fewer
    ids = sorted(replaced)
    for id_, record in await connection.execute(statements.records_by_id(ids)):
        fewer.update((agent, threads[replaced[id_]].id) for agent in agents_of(record_of(record)))
    for table in CHILDREN:
        await connection.execute(statements.delete_children(table, ids))
    await forget_words(connection, ids)
    return fewer


async def _usage_rows(connection: AsyncConnection, placed: Iterable[tuple[int, int, RecordRows]]) -> list[Row]:
    """Return the rows of `usage` of these turns."""
    placed, prompts = list(placed), dict[str, str | None]()
    for _, _, rows in placed:
        prompts.update({name: prompt_of(body) for name, body in rows.requests.items() if name not in prompts})
    of_turns = [(id_, thread, _names(one, prompts), one) for id_, thread, rows in placed for one in rows.usage]
    names = await ids_of(connection, UsageNames, {name for _, _, name, _ in of_turns})
    sources = {one["price_source"] for _, _, _, one in of_turns} - {None}
    prices = await price_sources_of(connection, sources)
    return [
        {
            "turn": id_,
            "thread": thread,
            "names": names[name],
            "price_source": prices.get(one["price_source"]),
            **{column: one[column] for column in OF_RESPONSE},
        }
        for id_, thread, name, one in of_turns
    ]


def _names(row: Row, prompts: Mapping[str, str | None]) -> UsageNames:
    prompt = prompts.get(row["request"])
    return UsageNames(row["tenant"], row["model"], row["provider"], row["agent_id"], prompt, row["origin"])


async def price_sources_of(connection: AsyncConnection, wanted: Collection[str]) -> dict[str, int]:
    """Return the integers of these sources of prices; missing ones are added."""
    if not wanted:
        return {}
    query = select(price_sources.c.source, price_sources.c.id)
    known = {row.source: row.id for row in await connection.execute(query)}
    if missing := sorted(set(wanted) - known.keys()):
        new = INSERT[connection.dialect.name](price_sources).on_conflict_do_nothing()
        await connection.execute(new, [{"source": one} for one in missing])
        known = {row.source: row.id for row in await connection.execute(query)}
    return known


async def _agents_calls(
    connection: AsyncConnection, more: Counter[tuple[Agent, int]], fewer: Counter[tuple[Agent, int]]
) -> list[Any]:
    """Return the calls that change in how many turns agents speak: more of them, and fewer."""
    change = {key: more[key] - fewer[key] for key in (*more, *fewer) if more[key] != fewer[key]}
    if not change:
        return []
    ids = await ids_of(connection, Agent, {agent for agent, _ in change})
    dialect = connection.dialect.name
    counts: dict[tuple[int, int], int] = {(ids[agent], thread): count for (agent, thread), count in change.items()}
    if any(count < 0 for count in counts.values()):
        await send(connection, [lookups.add_agents(dialect, counts)])
        gone = sorted({thread for (_, thread), count in counts.items() if count < 0})
        await forget_agents(connection, await connection.scalars(statements.delete_silent(gone)))
        return []
    return [lookups.add_agents(dialect, counts)]


async def lives_by(connection: AsyncConnection, thread: ThreadKey, records: Iterable[TurnRecord] = ()) -> bool:
    """Return True if a thread contains only turns of sub-agents of erased threads.

    An erased thread started each of its runs. `records`: some that are not stored yet.
    """
    runs: dict[str, set[ThreadKey]] = {}
    stored = map(record_of, await connection.scalars(statements.records_in(thread)))
    for record in (*records, *stored):
        named = {ThreadKey(thread_id, thread.tenant) for thread_id in starters(record)}
        runs.setdefault(record["run_id"], set()).update(named)
    erased = await erased_of(connection, set().union(*runs.values()))
    return all(named & erased for named in runs.values())


async def add_mark(connection: AsyncConnection, thread: ThreadKey) -> None:
    """Mark a thread as erased, and delete its queued deliveries; an existing mark keeps its time."""
    mark = {"thread_key": key_text(thread), "erased_at": now_ms()}
    await connection.execute(add_erased(connection.dialect.name), [mark])
    await forget_deliveries(connection, thread)


async def delete_turns(connection: AsyncConnection, keys: Iterable[ThreadKey], reason: str) -> None:
    """Delete the turns of threads, and leave a notice of each thread that had any.

    Feedback on them is deleted, too, and names and requests that no other row uses. `reason`: deleted, expired.
    """
    keys, agents, names, requests = list(keys), set[int](), set[int](), set[int]()
    await delete_feedback(connection, keys)
    for key in keys:
        names.update(await connection.scalars(statements.names_in(key)))
        requests.update(await connection.scalars(statements.requests_in(key)))
        gone = await connection.execute(statements.delete_turns(key))
        agents.update(await connection.scalars(statements.delete_agents(key)))
        if gone.rowcount:
            await notices.add(connection, [notices.deleted(key, reason, now_ms())])
    await forget_names(connection, names)
    await forget_agents(connection, agents)
    await forget_requests(connection, requests)


def _started_by(batch: Batch) -> set[ThreadKey]:
    return {thread for rows in batch.values() for thread in rows.started_by}


async def _orphans(connection: AsyncConnection, batch: Batch, erased: Collection[ThreadKey]) -> set[ThreadKey]:
    """Return the threads of a batch in which only sub-agents of erased threads have spoken.

    A run of the erased thread was still open, or is replayed.
    """
    if not erased:
        return set()
    suspects = {rows.thread for rows in batch.values() if rows.started_by & set(erased)} - set(erased)
    suspects -= await held_of(connection, suspects)
    records = {thread: [rows.record for rows in batch.values() if rows.thread == thread] for thread in suspects}
    return {thread for thread in suspects if await lives_by(connection, thread, records[thread])}
