"""Permanent erasure of a thread and its sub-agents' threads: rows, large values, archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.observability.audit import FAILED, about, audit
from pipeline.settings import Settings
from pipeline.stores.archive.configured import archives_of
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.errors import HeldThread
from pipeline.stores.threads.store import ThreadStore
from topics.thread_key import ThreadKey

ERASE: Final = "thread.erase"


@dataclass(frozen=True, slots=True)
class Erasure:
    """The result of an erasure: whether the thread was stored, and how many objects and segments had data of it.

    The numbers include the sub-agents' threads that were erased with it. `held`: sub-agents' threads that were kept,
    since they are held.
    """

    stored: bool
    objects: int
    segments: int
    sub_agents: tuple[ThreadKey, ...] = ()
    held: tuple[ThreadKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Erased:
    """The erased `threads`, each after the one that started it.

    `stored`: those of them that the store had. `held`: threads that were kept, since they are held.
    """

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
    await store.mark_erased(key)
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


async def erase_all(settings: Settings, store: ThreadStore, keys: Sequence[ThreadKey], by: str) -> Erased:
    """Erase threads, and those that only their sub-agents have spoken in; held ones stay. Raises StoreError.

    Each gets a line in the audit log before any of its data is deleted.

    All are marked first: from then on no worker writes data of them, and a replay doesn't restore them. Rows are
    deleted last, a sub-agent's before its parent's, so that a repeated call still finds all threads by their links.
    """
    family, held = await _marked(store, keys)
    for one in family:
        with_it, action = ("", None) if one in keys else (", a sub-agent's, with the one that started it", ERASE)
        audit.info("deleting thread %s%s, by %s", one.text, with_it, by, extra=about(one, action))
    budgets = settings.budget_list
    contents, objects, segments, stored = ContentStore.of(settings), 0, 0, set[ThreadKey]()
    for one in family:
        objects += await contents.delete_thread(one)
    for archive in archives_of(settings, store.erased) if family else ():
        segments += await archive.delete_threads(family)
    for one in reversed(family):
        if await store.delete_thread(one, budgets):
            stored.add(one)
    if stored and not await store.scrub():
        audit.warning("the store's log has something of what was deleted, until no reader holds it any more")
    return Erased(tuple(family), frozenset(stored), objects, segments, tuple(held))


async def _marked(store: ThreadStore, keys: Sequence[ThreadKey]) -> tuple[list[ThreadKey], list[ThreadKey]]:
    """Mark threads and the threads of their sub-agents, at any depth; return the marked and the held ones.

    Each follows the one that started it. Held ones stay, with all threads that they started.
    """
    family, held = dict[ThreadKey, None](), dict[ThreadKey, None]()
    waiting = list(keys)
    for one in waiting:  # the list grows during the loop
        if one in family or one in held:
            continue
        try:
            await store.mark_erased(one)
        except HeldThread:
            held[one] = None
        else:
            family[one] = None
            waiting += await store.sub_agents(one)
    return list(family), list(held)
