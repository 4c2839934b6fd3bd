"""Erase a thread: rows, large values, archive; and keep it erased."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pipeline.settings import Settings
from pipeline.stores.archive import Archive
from pipeline.stores.content import ContentStore
from pipeline.stores.sql import ThreadStore


@dataclass(frozen=True, slots=True)
class Erasure:
    """Whether the store held the thread; how many objects, and segments of the archive, held something of it."""

    stored: bool
    objects: int
    segments: int


async def erase(settings: Settings, store: ThreadStore, thread_id: str) -> Erasure:
    """Erase a thread for good. Raises StoreError; the same call then goes on where it stopped.

    It is marked first: from then on no worker writes anything of it, and a replay brings nothing back. Its rows are
    deleted last, so that a repeated call still finds it by its names.
    """
    await store.mark_erased(thread_id, time.time_ns() // 1_000_000)
    objects = await ContentStore.of(settings).delete_thread(thread_id)
    segments = 0
    if settings.archive is not None:
        segments = await Archive.of(settings, store.erased).delete_thread(thread_id)
    return Erasure(await store.delete_thread(thread_id), objects, segments)
