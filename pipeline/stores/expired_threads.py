"""Threads whose newest record is older than their tenant's retention, within the caller's transaction.

A thread goes as a whole, when all its records have ended before then. What `expired` holds of it from then on is no
mark: it says what large values and the archive may still have of it, and goes once they have nothing more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, case, func, select
from sqlalchemy import tuple_ as row_of
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.observability.audit import about, audit
from pipeline.policies.retention import Retention
from pipeline.stores import statements, usage_sums
from pipeline.stores.erased_threads import erased_of
from pipeline.stores.expired_remnants import Remnant, remember
from pipeline.stores.holds import held_of
from pipeline.stores.keys import key_text, thread_of
from pipeline.stores.list_statements import of_tenant
from pipeline.stores.notices import delete_turns
from pipeline.stores.rows import FACTS
from pipeline.stores.schema import threads, turns
from pipeline.stores.write import lock
from pipeline.turns.times import iso
from topics.thread_key import ThreadKey

LOOKED_AT: Final = 200  # threads at once
TURNS_AT_ONCE: Final = 100  # that one transaction deletes, or those of one thread


@dataclass(frozen=True, slots=True)
class Ripe:
    """A thread that has expired.

    Its turns, when its first one began and its last record ended, in epoch ms; `held`: it stays, as it is held.
    """

    key: ThreadKey
    turns: int
    first: int
    last: int
    held: bool = False


class RoundPosition(NamedTuple):
    """The position of a round: at which of the tenants with a retention of their own, and behind which thread."""

    tenant: int = 0
    updated_at: int = 0
    number: int = 0


def scopes(retention: Retention) -> list[str | None]:
    """Return the tenants with a retention of their own that ends, and None for all others."""
    own_ones = [name for name, kept in sorted(retention.tenants.items()) if kept is not None]
    return [*own_ones, *([None] if retention.default is not None else [])]


def candidates(tenant: str | None, begin: int, after: RoundPosition) -> Select[Any]:
    """Return a query of the next threads that were last updated before `begin`, the oldest first.

    Rows are name, id, turns, updated_at; of any tenant where that is None.
    """
    order = threads.c.updated_at, threads.c.id
    query = select(*statements.NAME, *order, threads.c.turns)
    query = query.where(threads.c.updated_at > 0, threads.c.updated_at < begin, *of_tenant(tenant))
    return query.where(row_of(*order) > row_of(after.updated_at, after.number)).order_by(*order).limit(LOOKED_AT)


async def next_ripe(
    connection: AsyncConnection, retention: Retention, now: int, after: RoundPosition
) -> tuple[list[Ripe], RoundPosition | None]:
    """Return the next expired threads and the next position, None behind the last.

    They have TURNS_AT_ONCE turns at most, or are one thread.
    """
    wanted = scopes(retention)
    if after.tenant >= len(wanted):
        return [], None
    tenant = wanted[after.tenant]
    begin = retention.begin(tenant, now) if tenant is not None else now - (retention.default or 0)
    rows = (await connection.execute(candidates(tenant, begin or 0, after))).all()
    if not rows:
        return [], RoundPosition(after.tenant + 1)
    some, count = rows[:1], rows[0].turns
    for row in rows[1:]:
        count += row.turns
        if count > TURNS_AT_ONCE:
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
    """Return the expired ones of these threads; not those that are being erased."""
    held, erased = await held_of(connection, keys), await erased_of(connection, keys)
    found = []
    for key in keys:
        real = func.sum(case((turns.c.role != FACTS, 1), else_=0))
        begun = func.min(case((turns.c.started_at > 0, turns.c.started_at)))
        query = select(real, begun, func.max(turns.c.ended_at)).where(turns.c.thread == statements.number_of(key))
        count, first, last = (await connection.execute(query)).one()
        if last is not None and key not in erased and retention.expired(key.tenant, last, now):
            found.append(Ripe(key, int(count), last if first is None else first, last, held=key in held))
    return found


async def expire(connection: AsyncConnection, keys: Iterable[ThreadKey], retention: Retention, now: int) -> list[Ripe]:
    """Delete the rows of the expired ones of these threads that are not held; return them.

    The sums of usage keep what they have used.
    """
    wanted = sorted(keys, key=key_text)
    rows = await lock(connection, wanted)  # this waits for a writer that is adding a turn, and for who holds the thread
    gone = [one for one in await ripe_of(connection, wanted, retention, now) if not one.held]
    for one in gone:
        await usage_sums.keep_expired(connection, one.key)
        # Before the transaction ends: one that ends without the line would have removed it in silence.
        what = "expired thread %s, %d turns, the last of %s"
        audit.info(what, one.key.text, one.turns, iso(one.last), extra=about(one.key))
        before = retention.begin(one.key.tenant, now) or 0
        await remember(connection, [Remnant(one.key, before, one.first, one.last, now)])
    await delete_turns(connection, [one.key for one in gone], "expired")
    await connection.execute(statements.delete_empty({row.id for row in rows.values()}))
    return gone
