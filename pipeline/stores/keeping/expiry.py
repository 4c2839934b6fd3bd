"""Expiry: deletes threads whose retention is over, with their large values and archived rows, in small steps.

Rows are deleted first, of some threads at once, in one transaction that notes which threads they were. Objects and
archived rows follow; the note is deleted when a later check finds nothing more. So a process that dies in the middle
leaves nothing behind, and several that work at once do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Final

from pipeline.observability.audit import about, audit
from pipeline.settings import Settings
from pipeline.stores.archive.configured import archives_of
from pipeline.stores.archive.records import EPOCH
from pipeline.stores.content.store import ContentStore, digests_in
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.expired_threads import Ripe, RoundPosition, expire, next_ripe
from pipeline.stores.threads.reading import erased_among, read_thread
from pipeline.stores.threads.remnants import REMNANTS_BATCH, Remnant, due_remnants, looked_at
from pipeline.turns.times import bounded
from topics.catalog import TURNS
from topics.thread_key import ThreadKey

RECHECK_MS: Final = 600_000  # until the next check of an expired thread's remnants
MAX_DAYS: Final = 4000  # days of one thread that are checked in the archive


@dataclass(frozen=True, slots=True)
class Expired:
    """The numbers of an expiry: threads, turns, large values and their bytes, rows of the archive; and held threads."""

    threads: int = 0
    turns: int = 0
    objects: int = 0
    bytes: int = 0
    archived: int = 0
    held: int = 0

    def __add__(self, other: Expired) -> Expired:
        """Return the sums."""
        return Expired(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


class Expiry:
    """Runs rounds of expiry over a store. `settings.kept_for` says what expires."""

    def __init__(self, settings: Settings, store: ThreadStore) -> None:
        """Prepare the expiry. Raises CallerError where a cloud's variables say too little."""
        self.store = store
        self.retention = settings.kept_for
        self.contents = ContentStore.of(settings)
        self.archives = archives_of(settings, partial(erased_among, store))
        # How long a turn may take from assembly, which has stored its large values already, to the store.
        self.on_the_way = settings.retention_ms.get(TURNS.name, TURNS.retention_ms)
        self.place = RoundPosition()

    async def step(self, now: int) -> tuple[Expired, bool]:
        """Expire the next batch of threads; after the last, delete large values and archived rows of the expired ones.

        Return what was removed, and whether this round has more to do. Raises StoreError; the next step goes on where
        this one stopped.
        """
        ripe, place = await next_ripe(self.store, self.retention, now, self.place)
        if place is None:
            done, more = await self._clean(now)
            if not more:
                self.place = RoundPosition()
            return done, more
        keys = [one.key for one in ripe if not one.held]
        gone = await expire(self.store, keys, self.retention, now) if keys else []
        self.place = place
        return Expired(len(gone), sum(one.turns for one in gone)), True

    async def would_go(self, now: int) -> Expired:
        """Return what a whole round would remove now; change nothing. Raises StoreError."""
        found, before, days = Expired(), dict[ThreadKey, int](), set[date]()
        place: RoundPosition | None = RoundPosition()
        while place is not None:
            ripe, place = await next_ripe(self.store, self.retention, now, place)
            found += Expired(held=sum(one.held for one in ripe))
            going = [one for one in ripe if not one.held]
            for one in going:
                sizes = [size for _, size, _ in await self.contents.objects_of(one.key)]
                found += Expired(1, one.turns, len(sizes), sum(sizes))
            days |= _days(going)
            before |= {one.key: self.retention.begin(one.key.tenant, now) or 0 for one in going}
        ends = before, dict.fromkeys(before, now)  # of turns, and of the feedback on them
        counted = [await one.counted(days, end) for one, end in zip(self.archives, ends, strict=False) if before]
        return found + Expired(archived=sum(counted))

    async def _clean(self, now: int) -> tuple[Expired, bool]:
        """Delete objects and archived rows of some expired threads. Return what was removed, and if more may follow."""
        remnants = await due_remnants(self.store, now)
        if not remnants:
            return Expired(), False
        done, left, clean = Expired(), list[Remnant](), list[Remnant]()
        again: dict[ThreadKey, int] = {}
        for remnant in remnants:
            removed, due = await self._delete_objects(remnant, now)
            done += removed
            if due is not None:
                again[remnant.key] = due
        before = {remnant.key: remnant.before for remnant in remnants}
        # Feedback on a thread expires with it, even if it was given later.
        feedback_before = {key: end + (self.retention.of(key.tenant) or 0) for key, end in before.items()}
        for archive, ends in zip(self.archives, (before, feedback_before), strict=False):
            archived = await archive.expire(_days(remnants), ends)
            done += Expired(archived=archived.rows)
            again |= dict.fromkeys(archived.threads, now + RECHECK_MS)
            if archived.rows:
                audit.info(
                    "%d rows of %d expired threads are gone from the archive", archived.rows, len(archived.threads)
                )
        for remnant in remnants:
            if remnant.key in again or self._just_gone(remnant, now):
                left.append(remnant._replace(due=again.get(remnant.key, now + RECHECK_MS)))
            else:
                clean.append(remnant)
        await looked_at(self.store, left, clean)
        return done, len(remnants) == REMNANTS_BATCH

    def _just_gone(self, one: Remnant, now: int) -> bool:
        """Return True if a thread has expired so recently that an archive may still be writing earlier turns of it."""
        kept_for = self.retention.of(one.key.tenant)
        return kept_for is not None and 0 <= now - one.before - kept_for < RECHECK_MS

    async def _delete_objects(self, one: Remnant, now: int) -> tuple[Expired, int | None]:
        """Delete the thread's large values that no turn refers to, except those that a turn on its way may refer to.

        Return what was removed, and when to check again; None if nothing was found.
        """
        kept_for = self.retention.of(one.key.tenant)
        begin = now - min(self.on_the_way, self.on_the_way if kept_for is None else kept_for)
        document = await read_thread(self.store, one.key)
        used = {digest for turn in (document or {"turns": []})["turns"] for digest in digests_in(turn)}
        found = await self.contents.objects_of(one.key)
        unused = [each for each in found if each.digest not in used]
        going = [each for each in unused if each.modified < begin]
        if going:
            await self.contents.delete(one.key, {each.digest for each in going}, begin)
        gone = Expired(objects=len(going), bytes=sum(each.size for each in going))
        if gone.objects:
            values = gone.objects, gone.bytes
            what = "of expired thread %s %d large values, %d bytes, are gone"
            audit.info(what, one.key.text, *values, extra=about(one.key))
        waiting = [each.modified + now - begin for each in unused if each.modified >= begin]
        if waiting:
            return gone, max(now + RECHECK_MS, *waiting)
        return gone, now + RECHECK_MS if gone.objects else None


def _days(found: Sequence[Ripe | Remnant]) -> set[date]:
    """Return the days of the archive that may have something of these threads; EPOCH has turns without a time."""
    days = {EPOCH} if found else set[date]()
    for one in found:
        first, last = (datetime.fromtimestamp(bounded(at) / 1000, UTC).date() for at in (one.first, one.last))
        days |= {first, *(last - timedelta(n) for n in range(min((last - first).days, MAX_DAYS) + 1))}
    return days
