"""Permanent erasure of a thread and its sub-agents' threads: rows, large values, archive."""

import asyncio
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import delete, select

from pipeline.observability.audit import FAILED, about, audit
from pipeline.policies.budgets import Budget
from pipeline.settings import Settings
from pipeline.stores.archive.turn_archive import archives_of
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.engine import EMPTY_MS, SQLITE
from pipeline.stores.database.errors import HeldThread
from pipeline.stores.database.held_and_erased import held_of, held_thread
from pipeline.stores.database.keys import key_text, thread_of
from pipeline.stores.database.schema import expired, threads, turns, usage_names
from pipeline.stores.database.sending import portions
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.tables_that_follow import BOOKS
from pipeline.stores.threads import list_statements, statements
from pipeline.stores.threads.labels import threads_with
from pipeline.stores.threads.reading import erased_among, summaries_of
from pipeline.stores.threads.write import DELETED, add_mark, delete_turns, lives_by, lock
from pipeline.stores.usage import budgets as used_budgets
from pipeline.stores.usage.summing import forget_expired_sums, names_of
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms
from turnmill.identity import trace_thread

ERASE: Final = "thread.erase"


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure's result: whether the thread was stored, counts, sub-agents' threads erased too, and held threads."""

    stored: bool
    objects: int
    segments: int
    sub_agents: tuple[ThreadKey, ...] = ()
    held: tuple[ThreadKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Erased:
    """Erased threads, parents first; those that were stored; counts; and threads that stay, since they are held."""

    threads: tuple[ThreadKey, ...]
    stored: frozenset[ThreadKey]
    objects: int
    segments: int
    held: tuple[ThreadKey, ...]


async def erase(settings: Settings, store: ThreadStore, key: ThreadKey, by: str) -> Erasure:
    """Erase a thread for good, and the threads that only its sub-agents have spoken in.

    Raises StoreError; the same call then goes on where it stopped. Raises HeldThread, and erases nothing, where the
    thread is held.

    `by`: who wants it, for the audit log.
    """
    await mark_erased(store, key)
    try:
        done = await erase_all(settings, store, [key], by)
    except Exception:
        audit.error(
            "deletion of thread %s, by %s, did not come to its end", key.text, by, extra=about(key, ERASE, FAILED)
        )
        raise
    counts = done.objects, done.segments
    audit.info(
        "deleted thread %s, %d objects, %d archived segments, by %s", key.text, *counts, by, extra=about(key, ERASE)
    )
    return Erasure(key in done.stored, done.objects, done.segments, done.threads[1:], done.held)


async def erase_user(
    settings: Settings, store: ThreadStore, user: str, tenant: str, by: str
) -> tuple[int, tuple[ThreadKey, ...]]:
    """Erase a tenant's threads with a run of this user, "" for none; return how many, and those that are held.

    What has expired of the user's is taken out of the sums, too. Raises StoreError; the same call then goes on.
    """
    mine = select(*statements.NAME).where(threads.c.id.in_(threads_with("user", [user])))
    keys = list(map(thread_of, await store.rows(mine.where(*list_statements.of_tenant(tenant)))))
    count, held = 0, list[ThreadKey]()
    for some in portions(keys):
        done = await erase_all(settings, store, some, by)
        for thread in {*done.threads} & {*some}:
            audit.info("deleted thread %s, with its user, by %s", thread.text, by, extra=about(thread, ERASE))
        count, held = count + len(done.threads), [*held, *done.held]
    await forget_expired_sums(store, names_of(tenant).where(usage_names.c.user == column_text(user)))
    return count, tuple(held)


async def erase_all(settings: Settings, store: ThreadStore, keys: Sequence[ThreadKey], by: str) -> Erased:
    """Erase threads, and those that only their sub-agents have spoken in; held ones stay. Raises StoreError.

    Each gets a line in the audit log before any of its data is deleted.

    All are marked first: from then on no worker writes data of them, and a replay doesn't restore them. Rows are
    deleted last, a sub-agent's before its parent's, so that a repeated call still finds all threads by their links.
    """
    family, held = await _marked(store, keys)
    for thread in family:
        with_it, action = ("", None) if thread in keys else (", a sub-agent's, with the one that started it", ERASE)
        audit.info("deleting thread %s%s, by %s", thread.text, with_it, by, extra=about(thread, action))
    budgets = settings.budget_list
    contents, objects, segments, stored = ContentStore.of(settings), 0, 0, set[ThreadKey]()
    for thread in family:
        objects += await contents.delete_thread(thread)
    for archive in archives_of(settings, partial(erased_among, store)) if family else ():
        segments += await archive.delete_threads(family)
    for thread in reversed(family):
        if await delete_thread(store, thread, budgets):
            stored.add(thread)
    if stored and not await scrub(store):
        audit.warning("the store's log has something of what was deleted, until no reader holds it any more")
    return Erased(tuple(family), frozenset(stored), objects, segments, tuple(held))


async def delete_thread(store: ThreadStore, key: ThreadKey, budgets: Iterable[Budget] = ()) -> bool:
    """Delete a thread's rows; return whether there were any. Its usage still counts towards these budgets.

    A replay stores it again unless `mark_erased` was called.
    """
    async with store.writing() as connection:
        locked = await lock(connection, [key])  # waits for a writer that is adding the thread
        turn = await connection.scalar(statements.has_turns(key))
        await used_budgets.note(connection, key, budgets, now_ms())
        await delete_turns(connection, [key], DELETED, BOOKS)
        await connection.execute(statements.delete_empty([locked[key].id]))
        await connection.execute(delete(expired).where(expired.c.thread_key == key_text(key)))
        return turn is not None


async def mark_erased(store: ThreadStore, key: ThreadKey) -> None:
    """Mark a thread as erased: from now on its records are dropped. Raises HeldThread.

    So are the traces that its runs may have been made of, for their spans that are still to come.
    """
    runs = select(turns.c.run_id).where(turns.c.thread == statements.number_of(key)).distinct()
    sources = (trace_thread(run.run_id, key.tenant) for run in await store.rows(runs))
    traces = {ThreadKey(source, key.tenant) for source in sources if source is not None}
    async with store.writing() as connection:
        locked = await lock(connection, {key, *traces})
        if await held_of(connection, [key]):
            raise held_thread(key)
        await add_mark(connection, key, *traces)
        for some in portions([row.id for row in locked.values()]):
            await connection.execute(statements.delete_empty(some))


async def sub_agents(store: ThreadStore, key: ThreadKey) -> list[ThreadKey]:
    """Return the threads in which only sub-agents of erased threads have spoken; `key` must be marked as erased."""
    async with store.writing() as connection:
        await lock(connection, [key])  # waits for writers of sub-agents' turns that have not seen the mark
        spawned = await summaries_of(connection, list_statements.spawned_from(key, None))
        return [summary.key for summary in spawned.values() if await lives_by(connection, summary.key)]


async def _marked(store: ThreadStore, keys: Sequence[ThreadKey]) -> tuple[list[ThreadKey], list[ThreadKey]]:
    """Mark threads, and their sub-agents' after them; return them and the held ones, which keep their sub-agents."""
    family, held = dict[ThreadKey, None](), dict[ThreadKey, None]()
    waiting = list(keys)
    for thread in waiting:  # the list grows during the loop
        if thread in family or thread in held:
            continue
        try:
            await mark_erased(store, thread)
        except HeldThread:
            held[thread] = None
        else:
            family[thread] = None
            waiting += await sub_agents(store, thread)
    return list(family), list(held)


PAGES: Final = 500  # of the index, merged in a transaction: about 0.1 s
MAX_ATTEMPTS: Final = 20  # to empty the log; each waits for readers, and blocks writers, for at most EMPTY_MS

MERGE: Final = "INSERT INTO turn_words_index(turn_words_index, rank) VALUES ('merge', {})"


async def scrub(store: ThreadStore) -> bool:
    """Remove deleted bytes from SQLite's files, after all deletions; return False if a reader keeps the log."""
    if not store.url.startswith(SQLITE):
        return True
    with store.failures():
        return await asyncio.to_thread(_scrub, Path(store.url.removeprefix(SQLITE)))


def _scrub(file: Path) -> bool:
    with closing(sqlite3.connect(file, isolation_level=None, timeout=15.0)) as connection:
        connection.execute("PRAGMA secure_delete=ON")
        pages, merged = -PAGES, True  # below 0: merge all parts of the index, however few
        while merged:
            before = connection.total_changes
            connection.execute(MERGE.format(pages))
            pages, merged = PAGES, connection.total_changes - before > 1  # fewer changes: nothing was left to merge
        connection.execute(f"PRAGMA busy_timeout={EMPTY_MS}")
        return any(
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0 for _ in range(MAX_ATTEMPTS)
        )
