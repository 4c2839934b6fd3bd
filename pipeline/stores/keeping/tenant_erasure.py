"""Erasure of a tenant: of all its threads, wherever data of them is stored; and the proof that nothing remains."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy import delete, select
from sqlalchemy import tuple_ as row_of

from pipeline.observability.audit import FAILED, audit, of
from pipeline.settings import Settings
from pipeline.stores.archive.audit import AuditArchive
from pipeline.stores.archive.turn_archive import archives_of
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.keys import key_text, thread_of
from pipeline.stores.database.schema import erased, expired, threads
from pipeline.stores.database.sending import certain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import Erased, erase_all, scrub
from pipeline.stores.keeping.holding import held_threads
from pipeline.stores.tables_that_follow import BOOKS
from pipeline.stores.threads.list_statements import of_tenant
from pipeline.stores.threads.reading import erased_among
from pipeline.stores.threads.statements import NAME
from pipeline.stores.threads.write import add_mark
from topics.thread_key import ThreadKey

VALUES, ARCHIVE, AUDIT = "large values", "objects of the archive", "objects of the archive's audit log"
PAGE_SIZE: Final = 200  # a tenant's threads that are read together
BATCH_SIZE: Final = 2_000  # threads that are marked and searched for in the archive together


@dataclass(frozen=True, slots=True)
class Left:
    """The remnants of a tenant: its held threads, and the counts of rows, large values, and objects of the archive."""

    held: tuple[ThreadKey, ...]
    found: Mapping[str, int]

    @property
    def nothing(self) -> bool:
        """True if nothing remains."""
        return not any(self.found.values())


async def erase_tenant(
    settings: Settings, store: ThreadStore, tenant: str, by: str, done: Callable[[Erased], None]
) -> tuple[ThreadKey, ...]:
    """Erase all threads of a tenant, "" for threads without a tenant; return the held ones, which stay.

    The turns of a held thread's own sub-agents stay, too. Raises StoreError; the same call then goes on where it
    stopped. `by`: who wants it, for the audit log. `done` is called with some at a time.
    """
    audit.info("erasing the tenant %r, by %s", tenant, by, extra={"tenant": tenant})
    try:
        held = await _erase(settings, store, tenant, by, done)
    except Exception:
        extra = of("tenant.erase", tenant, tenant, FAILED)
        audit.error("the erasure of the tenant %r, by %s, did not come to its end", tenant, by, extra=extra)
        raise
    audit.info("erased the tenant %r, by %s", tenant, by, extra=of("tenant.erase", tenant, tenant))
    return tuple(sorted(held, key=lambda key: key.text))


async def _erase(
    settings: Settings, store: ThreadStore, tenant: str, by: str, done: Callable[[Erased], None]
) -> set[ThreadKey]:
    held: set[ThreadKey] = set()
    some: list[ThreadKey] = []

    async def erase_some() -> None:
        erased = await erase_all(settings, store, some, f"{by}, with its tenant")
        held.update(erased.held)
        some.clear()
        done(erased)

    async for key in _threads(settings, store, tenant):
        some.append(key)
        if len(some) == BATCH_SIZE:
            await erase_some()
    if some:
        await erase_some()
    await forget_tenant(settings, store, tenant)
    await mark_tenant(store, tenant)
    await scrub(store)
    return held


async def mark_tenant(store: ThreadStore, tenant: str) -> None:
    """Set the time of a tenant's last erasure, by which a restore repeats it."""
    async with store.writing() as connection:
        mark = ThreadKey("", tenant or None)
        await connection.execute(delete(erased).where(erased.c.thread_key == key_text(mark)))
        await add_mark(connection, mark)


async def forget_tenant(settings: Settings, store: ThreadStore, tenant: str) -> None:
    """Erase what is a tenant's, but no thread's."""
    for book in BOOKS:
        if book.forget_tenant is not None:
            await book.forget_tenant(store, tenant)
    if (audited := AuditArchive.of(settings)) is not None:
        await audited.forget(tenant)


async def what_is_left(settings: Settings, store: ThreadStore, tenant: str) -> Left:
    """Check every place that must be empty after an erasure (`docs/places.py`). Raises StoreError."""
    held = {key for key in await held_threads(store) if (key.tenant or "") == tenant}
    contents = ContentStore.of(settings)
    objects = 0
    for key in await contents.threads_of(tenant):
        objects += len(await contents.objects_of(key))
    segments = sum([await archive.holding(tenant) for archive in archives_of(settings, partial(erased_among, store))])
    audited = AuditArchive.of(settings)
    entries = await audited.holding(tenant) if audited is not None else 0
    counts = {**await rows_left(store, tenant), VALUES: objects, ARCHIVE: segments, AUDIT: entries}
    return Left(tuple(sorted(held, key=lambda key: key.text)), counts)


async def _threads(settings: Settings, store: ThreadStore, tenant: str) -> AsyncIterator[ThreadKey]:
    """Yield the tenant's threads: those in the store, then those that only the content store or the archive has."""
    seen: set[ThreadKey] = set()
    async for key in threads_of_tenant(store, tenant):
        seen.add(key)
        yield key
    others = await ContentStore.of(settings).threads_of(tenant)
    names = {ThreadKey.of(*row.name) for row in await store.rows(select(expired.c.name))}
    others |= {key for key in names if (key.tenant or "") == tenant}  # of which something may remain elsewhere
    for archive in archives_of(settings, partial(erased_among, store)):
        others |= await archive.threads_of(tenant)
    for key in sorted(others - seen):
        yield key


async def threads_of_tenant(store: ThreadStore, tenant: str) -> AsyncIterator[ThreadKey]:
    """Yield a tenant's threads, each once, the least recently updated first."""
    order, after = (threads.c.updated_at, threads.c.id), (-1, 0)
    query = select(*NAME, *order).where(*of_tenant(tenant)).order_by(*order).limit(PAGE_SIZE)
    while True:
        rows = await store.rows(query.where(row_of(*order) > row_of(*after)))
        for row in rows:
            yield thread_of(row)
        if not rows:
            return
        after = rows[-1].updated_at, rows[-1].id


async def rows_left(store: ThreadStore, tenant: str) -> dict[str, int]:
    """Return how many rows of each table contain data of a tenant."""
    async with store.reading() as connection:
        await certain(connection)
        tables = [table for book in BOOKS for table in book.tables]
        return {table.table: await table.left(connection, tenant) for table in tables if table.left is not None}
