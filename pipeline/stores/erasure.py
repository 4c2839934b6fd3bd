"""Erase a thread and its sub-agents': rows, large values, archive; and keep them erased."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.settings import Settings
from pipeline.stores.archive import Archive
from pipeline.stores.content import ContentStore, digests_in
from pipeline.stores.sql import ThreadStore
from topics.thread_key import ThreadKey


@dataclass(frozen=True, slots=True)
class Erasure:
    """Whether the store held the thread; how many objects, and segments of the archive, held something of it, or of the
    sub-agents' threads that went with it.
    """

    stored: bool
    objects: int
    segments: int
    sub_agents: tuple[ThreadKey, ...] = ()


async def erase(settings: Settings, store: ThreadStore, key: ThreadKey) -> Erasure:
    """Erase a thread for good, and the threads that only its sub-agents have spoken in. Raises StoreError; the same
    call then goes on where it stopped.

    All are marked first: from then on no worker writes anything of them, and a replay brings nothing back. Rows are
    deleted last, a sub-agent's before its parent's, so that a repeated call still finds each by its names.
    """
    family = await _marked(store, key)
    contents, objects, segments = ContentStore.of(settings), 0, 0
    for one in family:
        objects += await contents.delete_thread(one) + await _delete_older(contents, store, one)
    if settings.archive is not None:
        segments = await Archive.of(settings, store.erased).delete_threads(family)
    for one in reversed(family):
        stored = await store.delete_thread(one)
    return Erasure(stored, objects, segments, tuple(family[1:]))


async def _marked(store: ThreadStore, key: ThreadKey) -> list[ThreadKey]:
    """Mark a thread and the threads of its sub-agents, at any depth -> all, each behind the one that started it."""
    family = [key]
    for one in family:  # it grows meanwhile
        await store.mark_erased(one)
        family += [child for child in await store.sub_agents(one) if child not in family]
    return family


async def _delete_older(contents: ContentStore, store: ThreadStore, key: ThreadKey) -> int:
    """Delete a tenant's objects that a version before tenants has put where the id alone says: all that are there, or,
    where others have threads with this id, those that only this thread refers to. -> their number.
    """
    document = await store.thread(key) if key.tenant is not None and contents.root is not None else None
    mine = await contents.older_objects(key, document, store.hashes) if document is not None else set()
    if not mine:  # nothing proves that what may be there is this tenant's
        return 0
    others = [other for other in await store.with_id(key.thread_id) if other != key]
    for other in others:
        for turn in (await store.thread(other) or {"turns": []})["turns"]:
            mine -= digests_in(turn)
    return await contents.delete_older(key.thread_id, mine if others else None)
