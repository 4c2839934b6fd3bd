"""Expiry: deletes threads whose retention is over, with their large values and archived rows, in small steps.

Rows are deleted first, of some threads at once, in a transaction that notes which threads they were. Objects and
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
from pipeline.stores.database.held_and_erased import REMNANTS_BATCH, Remnant, due_remnants, looked_at
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.expired_threads import Ripe, RoundPosition, expire, next_ripe
from pipeline.stores.threads.reading import erased_among, read_thread
from pipeline.turns.times import bounded
from topics.catalog import TURNS
from topics.thread_key import ThreadKey

RECHECK_MS: Final = 600_000  # until the next check of an expired thread's remnants
MAX_DAYS: Final = 4000  # days of a thread that are checked in the archive


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
        self.position = RoundPosition()

    async def step(self, now: int) -> tuple[Expired, bool]:
        """Expire the next threads, then their remnants; return counts, and if more is to do. Raises StoreError."""
        ripe, position = await next_ripe(self.store, self.retention, now, self.position)
        if position is None:
            done, more = await self._clean(now)
            if not more:
                self.position = RoundPosition()
            return done, more
        keys = [thread.key for thread in ripe if not thread.held]
        gone = await expire(self.store, keys, self.retention, now) if keys else []
        self.position = position
        return Expired(len(gone), sum(thread.turns for thread in gone)), True

    async def would_go(self, now: int) -> Expired:
        """Return what a whole round would remove now; change nothing. Raises StoreError."""
        total, before, days = Expired(), dict[ThreadKey, int](), set[date]()
        position: RoundPosition | None = RoundPosition()
        while position is not None:
            ripe, position = await next_ripe(self.store, self.retention, now, position)
            total += Expired(held=sum(thread.held for thread in ripe))
            going = [thread for thread in ripe if not thread.held]
            for thread in going:
                sizes = [size for _, size, _ in await self.contents.objects_of(thread.key)]
                total += Expired(1, thread.turns, len(sizes), sum(sizes))
            days |= _days(going)
            before |= {thread.key: self.retention.begin(thread.key.tenant, now) or 0 for thread in going}
        ends = before, dict.fromkeys(before, now)  # of turns, and of the feedback on them
        counted = [
            await archive.counted(days, end) for archive, end in zip(self.archives, ends, strict=False) if before
        ]
        return total + Expired(archived=sum(counted))

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

    def _just_gone(self, remnant: Remnant, now: int) -> bool:
        """Return True if a thread has expired so recently that an archive may still be writing earlier turns of it."""
        kept_for = self.retention.of(remnant.key.tenant)
        return kept_for is not None and 0 <= now - remnant.before - kept_for < RECHECK_MS

    async def _delete_objects(self, remnant: Remnant, now: int) -> tuple[Expired, int | None]:
        """Delete large values that no turn refers to, or may refer to soon; return counts, and when to check again."""
        kept_for = self.retention.of(remnant.key.tenant)
        begin = now - min(self.on_the_way, self.on_the_way if kept_for is None else kept_for)
        document = await read_thread(self.store, remnant.key)
        used = {digest for turn in (document or {"turns": []})["turns"] for digest in digests_in(turn)}
        stored = await self.contents.objects_of(remnant.key)
        unused = [each for each in stored if each.digest not in used]
        going = [each for each in unused if each.modified < begin]
        if going:
            await self.contents.delete(remnant.key, {each.digest for each in going}, begin)
        gone = Expired(objects=len(going), bytes=sum(each.size for each in going))
        if gone.objects:
            values = gone.objects, gone.bytes
            what = "of expired thread %s %d large values, %d bytes, are gone"
            audit.info(what, remnant.key.text, *values, extra=about(remnant.key))
        waiting = [each.modified + now - begin for each in unused if each.modified >= begin]
        if waiting:
            return gone, max(now + RECHECK_MS, *waiting)
        return gone, now + RECHECK_MS if gone.objects else None


def _days(threads: Sequence[Ripe | Remnant]) -> set[date]:
    """Return the days of the archive that may have something of these threads; EPOCH has turns without a time."""
    days = {EPOCH} if threads else set[date]()
    for thread in threads:
        first, last = (datetime.fromtimestamp(bounded(at) / 1000, UTC).date() for at in (thread.first, thread.last))
        days |= {first, *(last - timedelta(n) for n in range(min((last - first).days, MAX_DAYS) + 1))}
    return days
