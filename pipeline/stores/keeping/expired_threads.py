"""Threads whose newest record is older than their tenant's retention, found and deleted.

A thread is deleted as a whole, once all its records have expired. Its row in `expired` then isn't a mark against new
turns: it says that large values and archived rows may remain, and is deleted once none do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, case, func, or_, select, update
from sqlalchemy import tuple_ as row_of
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.observability.audit import about, audit
from pipeline.policies.retention import Retention
from pipeline.stores.database.held_and_erased import Remnant, erased_of, held_of, remember
from pipeline.stores.database.keys import key_text, thread_of
from pipeline.stores.database.schema import expiry_state, threads, turns
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.tables_that_follow import BOOKS
from pipeline.stores.threads import statements
from pipeline.stores.threads.list_statements import of_tenant
from pipeline.stores.threads.rows import FACTS
from pipeline.stores.threads.write import EXPIRED, delete_turns, lock
from pipeline.turns.times import iso
from topics.thread_key import ThreadKey

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
    held, erased = await held_of(connection, keys), await erased_of(connection, keys)
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
        await remember(connection, [Remnant(thread.key, before, thread.first, thread.last, now)])
    await delete_turns(connection, [thread.key for thread in gone], EXPIRED, BOOKS)
    await connection.execute(statements.delete_empty({row.id for row in rows.values()}))
    return gone


async def lease_expiry(store: ThreadStore, holder: str, now: int, until: int) -> bool:
    """Take or renew the lease of the expiry until `until`; return False if another process has it."""
    free = or_(expiry_state.c.holder == holder, expiry_state.c.until <= now)
    return await store.change(update(expiry_state).where(free).values(holder=holder, until=until)) > 0
