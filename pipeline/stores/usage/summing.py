"""The sums of a store's usage: updating them, and comparing them with the rows."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.keys import UsageNames
from pipeline.stores.database.schema import usage_names
from pipeline.stores.database.schema import usage_sums as usage_sums_table
from pipeline.stores.database.sending import certain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.write import EXPIRED
from pipeline.stores.usage import sums as usage_sums
from pipeline.stores.usage.sums import Compared, forget_names
from pipeline.stores.usage.tallies import SPANS, WEEK, SumKey
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey


async def keep_sums(store: ThreadStore, *, wanted: bool) -> None:
    """Keep sums from now on, or stop keeping them: usage is then read from rows."""
    async with store.reading() as connection:
        if await usage_sums.kept(connection) == wanted:
            return
    await store.completed(partial(usage_sums.keep, wanted=wanted))


async def sum_up(store: ThreadStore) -> bool:
    """Add some changes to the sums, and build some of the missing; return whether there is more to do at once."""
    async with store.reading() as connection:
        if not await usage_sums.unfinished(connection):
            return False
    return await store.completed(_sum_up)


async def _sum_up(connection: AsyncConnection) -> bool:
    if not await usage_sums.alone(connection):  # another process does it
        return False
    await certain(connection)
    taken = await usage_sums.take_up(connection)
    if taken == usage_sums.CHANGES_BATCH:
        return True
    return await usage_sums.build(connection) not in (usage_sums.ALL, usage_sums.NONE)


async def compare_sums(store: ThreadStore, *, repair: bool = False) -> Compared:
    """Compare sums of live turns with the rows, a transaction for each week; with `repair`, correct wrong sums."""
    looked_at, wrong, begin = 0, list[tuple[SumKey, UsageNames]](), usage_sums.NONE
    week: int | None = 0
    while week is not None:
        async with store.writing() as connection:
            await certain(connection)
            await usage_sums.alone(connection, wait=True)
            begin = await usage_sums.since(connection)
            week = await usage_sums.next_week(connection, max(week, begin)) if begin < usage_sums.NONE else None
            if week is not None:
                compared = await usage_sums.compare(connection, week, begin)
                differ = {key: right for key, (right, is_) in compared.items() if right.columns() != is_.columns()}
                names = await usage_sums.names_of(connection, differ)
                wrong += [(key, names[key.names]) for key in differ]
                looked_at, week = looked_at + len(compared), week + WEEK
                if repair:
                    await usage_sums.put(connection, differ)
    return Compared(looked_at, tuple(sorted(wrong)), None if begin == usage_sums.NONE else begin)


async def keep_expired(connection: AsyncConnection, keys: Iterable[ThreadKey], reason: str) -> None:
    """Keep the usage of threads that are about to expire as sums; `reason`: why they are deleted."""
    for key in keys if reason == EXPIRED else ():
        await usage_sums.keep_expired(connection, key)


async def forget_sums(store: ThreadStore, tenant: str) -> None:
    """Delete the sums of a tenant's expired turns; those of stored turns are derived from these turns."""
    await forget_expired_sums(store, names_of(tenant))


async def forget_expired_sums(store: ThreadStore, names: Select[Any]) -> None:
    """Delete the sums of expired turns under these ids of `usage_names`."""
    while await sum_up(store):
        pass
    async with store.writing() as connection:
        await usage_sums.alone(connection, wait=True)
        await certain(connection)
        ids = (await connection.scalars(names)).all()
        await connection.execute(delete(usage_sums_table).where(_under(names), usage_sums_table.c.expired))
        await forget_names(connection, ids)


def names_of(tenant: str) -> Select[Any]:
    """Return a query of a tenant's ids in `usage_names`."""
    name, column = column_text(tenant), usage_names.c.tenant
    return select(usage_names.c.id).where(column == name if name else column.is_(None))


def sums_of(tenant: str) -> ColumnElement[bool]:
    """Return the condition of a tenant's sums."""
    return _under(names_of(tenant))


def _under(names: Select[Any]) -> ColumnElement[bool]:
    return and_(usage_sums_table.c.span.in_(SPANS), usage_sums_table.c.names.in_(names))
