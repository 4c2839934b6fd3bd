"""Expiry: deletes threads whose retention is over, with their large values and archived rows, in small steps.

Rows are deleted first, of some threads at once, in a transaction that notes which threads they were. Objects and
archived rows follow; the note is deleted when a later check finds nothing more. So a process that dies in the middle
leaves nothing behind, and several that work at once do no harm.

A thread is deleted as a whole, once all its records have expired: its newest record is older than its tenant's
retention. Its row in `expired` then isn't a mark against new turns: it says that large values and archived rows may
remain, and is deleted once none do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, case, func, or_, select, update
from sqlalchemy import tuple_ as row_of
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.observability.audit import about, audit
from pipeline.policies.retention import Retention
from pipeline.settings import Settings
from pipeline.stores.archive.turn_archive import EPOCH, archives_of
from pipeline.stores.content.store import ContentStore, digests_in
from pipeline.stores.database import held_and_erased
from pipeline.stores.database.keys import key_text, thread_of
from pipeline.stores.database.schema import expiry_state, threads, turns
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.tables_that_follow import BOOKS
from pipeline.stores.threads import statements
from pipeline.stores.threads.list_statements import of_tenant
from pipeline.stores.threads.reading import erased_among, read_thread
from pipeline.stores.threads.rows import FACTS
from pipeline.stores.threads.write import EXPIRED, delete_turns, lock
from pipeline.turns.times import bounded, iso
from topics.catalog import TURNS
from topics.thread_key import ThreadKey

RECHECK_MS: Final = 600_000  # until the next check of an expired thread's remnants
MAX_DAYS: Final = 4000  # days of a thread that are checked in the archive
LOOKED_AT: Final = 200  # threads per query
TURNS_BATCH: Final = 100  # how many turns a transaction deletes at most, unless a thread has more


@dataclass(frozen=True, slots=True)
class Ripe:
    """An expired thread: its number of turns; first beginning, last end (epoch ms); held threads are not deleted."""

    key: ThreadKey
    turns: int
    first: int
    last: int
    held: bool = False


class RoundPosition(NamedTuple):
    """The position of a round: the index of a scope (see `scopes`), and the thread after which it continues."""

    tenant: int = 0
    updated_at: int = 0
    number: int = 0


def scopes(retention: Retention) -> list[str | None]:
    """Return the tenants whose retention is set separately, and ends, and None for all others."""
    own_ones = [name for name, kept in sorted(retention.tenants.items()) if kept is not None]
    return [*own_ones, *([None] if retention.default is not None else [])]


def candidates(tenant: str | None, begin: int, after: RoundPosition) -> Select[Any]:
    """Return a query of the next threads updated before `begin`, the oldest first, of a tenant or (None) of any."""
    order = threads.c.updated_at, threads.c.id
    query = select(*statements.NAME, *order, threads.c.turns)
    query = query.where(threads.c.updated_at > 0, threads.c.updated_at < begin, *of_tenant(tenant))
    return query.where(row_of(*order) > row_of(after.updated_at, after.number)).order_by(*order).limit(LOOKED_AT)


async def next_ripe(
    store: ThreadStore, retention: Retention, now: int, after: RoundPosition
) -> tuple[list[Ripe], RoundPosition | None]:
    """Return the next expired threads, of TURNS_BATCH turns or just one, and the next position; None at the end."""
    wanted = scopes(retention)
    if after.tenant >= len(wanted):
        return [], None
    tenant = wanted[after.tenant]
    begin = retention.begin(tenant, now) if tenant is not None else now - (retention.default or 0)
    async with store.reading() as connection:
        rows = (await connection.execute(candidates(tenant, begin or 0, after))).all()
        if not rows:
            return [], RoundPosition(after.tenant + 1)
        some, count = rows[:1], rows[0].turns
        for row in rows[1:]:
            count += row.turns
            if count > TURNS_BATCH:
                break
            some.append(row)
        keys = [thread_of(row) for row in some]
        if tenant is None:
            keys = [key for key in keys if (key.tenant or "") not in retention.tenants]
        ripe = await ripe_of(connection, keys, retention, now)
    return ripe, RoundPosition(after.tenant, some[-1].updated_at, some[-1].id)


async def ripe_of(
    connection: AsyncConnection, keys: Collection[ThreadKey], retention: Retention, now: int
) -> list[Ripe]:
    """Return those of these threads that have expired and are not being erased."""
    held, erased = await held_and_erased.held_of(connection, keys), await held_and_erased.erased_of(connection, keys)
    ripe = []
    for key in keys:
        real = func.sum(case((turns.c.role != FACTS, 1), else_=0))
        begun = func.min(case((turns.c.started_at > 0, turns.c.started_at)))
        query = select(real, begun, func.max(turns.c.ended_at)).where(turns.c.thread == statements.number_of(key))
        count, first, last = (await connection.execute(query)).one()
        if last is not None and key not in erased and retention.expired(key.tenant, last, now):
            ripe.append(Ripe(key, int(count), last if first is None else first, last, held=key in held))
    return ripe


async def expire(store: ThreadStore, keys: Iterable[ThreadKey], retention: Retention, now: int) -> list[Ripe]:
    """Delete those of these threads that have expired, unless they are held; return them. Sums keep their usage."""
    return await store.completed(partial(_expire, keys=keys, retention=retention, now=now))


async def _expire(connection: AsyncConnection, keys: Iterable[ThreadKey], retention: Retention, now: int) -> list[Ripe]:
    wanted = sorted(keys, key=key_text)
    rows = await lock(connection, wanted)  # waits for a writer that is adding a turn, or a caller that holds it
    gone = [thread for thread in await ripe_of(connection, wanted, retention, now) if not thread.held]
    for thread in gone:
        # Logged before the transaction ends: if the process died in between, the deletion would have no line.
        what = "expired thread %s, %d turns, the last of %s"
        audit.info(what, thread.key.text, thread.turns, iso(thread.last), extra=about(thread.key))
        before = retention.begin(thread.key.tenant, now) or 0
        await held_and_erased.remember(
            connection, [held_and_erased.Remnant(thread.key, before, thread.first, thread.last, now)]
        )
    await delete_turns(connection, [thread.key for thread in gone], EXPIRED, BOOKS)
    await connection.execute(statements.delete_empty({row.id for row in rows.values()}))
    return gone


async def lease_expiry(store: ThreadStore, holder: str, now: int, until: int) -> bool:
    """Take or renew the lease of the expiry until `until`; return False if another process has it."""
    free = or_(expiry_state.c.holder == holder, expiry_state.c.until <= now)
    return await store.change(update(expiry_state).where(free).values(holder=holder, until=until)) > 0


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
        remnants = await held_and_erased.due_remnants(self.store, now)
        if not remnants:
            return Expired(), False
        done, left, clean = Expired(), list[held_and_erased.Remnant](), list[held_and_erased.Remnant]()
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
        await held_and_erased.looked_at(self.store, left, clean)
        return done, len(remnants) == held_and_erased.REMNANTS_BATCH

    def _just_gone(self, remnant: held_and_erased.Remnant, now: int) -> bool:
        """Return True if a thread has expired so recently that an archive may still be writing earlier turns of it."""
        kept_for = self.retention.of(remnant.key.tenant)
        return kept_for is not None and 0 <= now - remnant.before - kept_for < RECHECK_MS

    async def _delete_objects(self, remnant: held_and_erased.Remnant, now: int) -> tuple[Expired, int | None]:
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


def _days(threads: Sequence[Ripe | held_and_erased.Remnant]) -> set[date]:
    """Return the days of the archive that may have something of these threads; EPOCH has turns without a time."""
    days = {EPOCH} if threads else set[date]()
    for thread in threads:
        first, last = (datetime.fromtimestamp(bounded(at) / 1000, UTC).date() for at in (thread.first, thread.last))
        days |= {first, *(last - timedelta(n) for n in range(min((last - first).days, MAX_DAYS) + 1))}
    return days
