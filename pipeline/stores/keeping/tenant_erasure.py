"""Erasure of a tenant: of all its threads, wherever data of them is stored; and the proof that nothing remains."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.observability.audit import FAILED, audit, of
from pipeline.settings import Settings
from pipeline.stores.archive.audit import AuditArchive
from pipeline.stores.archive.configured import archives_of
from pipeline.stores.content.store import ContentStore
from pipeline.stores.keeping.erasure import Erased, erase_all
from pipeline.stores.threads.store import ThreadStore
from topics.thread_key import ThreadKey

VALUES, ARCHIVE, AUDIT = "large values", "objects of the archive", "objects of the archive's audit log"
BATCH_SIZE: Final = 2_000  # threads that are marked and searched for in the archive together


@dataclass(frozen=True, slots=True)
class Left:
    """The remnants of a tenant.

    `held`: its threads that are held; `found`: how many rows of each table, large values and objects of the archive
    contain data of it.
    """

    held: tuple[ThreadKey, ...]
    found: Mapping[str, int]

    @property
    def nothing(self) -> bool:
        """True if nothing remains."""
        return not any(self.found.values())


async def erase_tenant(
    settings: Settings, store: ThreadStore, tenant: str, by: str, done: Callable[[Erased], None]
) -> tuple[ThreadKey, ...]:
    """Erase all threads of a tenant, "" for those without one; return the held ones, which stay.

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
    await store.drop_webhooks(tenant)
    await store.revoke_tokens(tenant)
    await store.forget_feedback(tenant)
    await store.forget_notices(tenant)
    await store.forget_audit(tenant)
    if (audited := AuditArchive.of(settings)) is not None:
        await audited.forget(tenant)
    await store.forget_views(tenant)
    await store.forget_sums(tenant)
    await store.forget_deleted_usage(tenant)
    await store.scrub()
    return held


async def what_is_left(settings: Settings, store: ThreadStore, tenant: str) -> Left:
    """Check every place of `pipeline.stores.keeping.places` that must be empty after an erasure. Raises StoreError."""
    held = {key for key in await store.held() if (key.tenant or "") == tenant}
    contents = ContentStore.of(settings)
    objects = 0
    for key in await contents.threads_of(tenant):
        objects += len(await contents.objects_of(key))
    segments = sum([await archive.holding(tenant) for archive in archives_of(settings, store.erased)])
    audited = AuditArchive.of(settings)
    entries = await audited.holding(tenant) if audited is not None else 0
    found = {**await store.rows_left(tenant), VALUES: objects, ARCHIVE: segments, AUDIT: entries}
    return Left(tuple(sorted(held, key=lambda key: key.text)), found)


async def _threads(settings: Settings, store: ThreadStore, tenant: str) -> AsyncIterator[ThreadKey]:
    """Yield the tenant's threads: those in the store, then those that only the content store or the archive has."""
    seen: set[ThreadKey] = set()
    async for key in store.threads_of(tenant):
        seen.add(key)
        yield key
    others = await ContentStore.of(settings).threads_of(tenant) | await store.expired_of(tenant)
    for archive in archives_of(settings, store.erased):
        others |= await archive.threads_of(tenant)
    for key in sorted(others - seen):
        yield key
