"""Deletes names, and requests to models, with the last row that uses them: a deletion keeps nobody's name.

All of it is within the caller's transaction.

On Postgres a writer locks the names that it is about to use (`names.ids_of`). A deletion waits for the writer, and then
sees that the name is in use; a writer that comes later waits for the deletion, and adds the name again. Deletions run
one at a time: otherwise two of them might each count the other's rows as a use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, delete, exists, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.schema import (
    WEEK,
    agents,
    request_members,
    request_values,
    requests,
    thread_agents,
    turn_requests,
    usage,
    usage_changes,
    usage_names,
    usage_sums,
)
from pipeline.stores.database.sending import portions

LOCK_KEY: Final = 0x74726E6D6E616D  # of Postgres' advisory lock: "trnmnam"
USED: Final = {  # the rows that use a name; every sum is also part of the one of its week
    agents: (exists().where(thread_agents.c.agent == agents.c.id),),
    requests: (exists().where(turn_requests.c.request == requests.c.id),),
    request_values: (exists().where(request_members.c.value == request_values.c.id),),
    usage_names: (
        exists().where(usage.c.names == usage_names.c.id),
        exists().where(usage_sums.c.span == WEEK, usage_sums.c.names == usage_names.c.id),
        exists().where(usage_changes.c.names == usage_names.c.id),
    ),
}


async def forget_agents(connection: AsyncConnection, ids: Iterable[int]) -> None:
    """Delete those of these agents that no longer speak in any thread."""
    await _forget(connection, agents, ids)


async def forget_names(connection: AsyncConnection, ids: Iterable[int]) -> None:
    """Delete those of these names of `usage_names` that no usage, no sum and no change refers to any more."""
    await _forget(connection, usage_names, ids)


async def forget_requests(connection: AsyncConnection, ids: Iterable[int]) -> None:
    """Delete those of these requests that no turn refers to any more, with values that no other request has."""
    wanted, values = sorted(set(ids)), set[int]()
    for some in portions(wanted):
        of_them = select(request_members.c.value).where(request_members.c.request.in_(some)).distinct()
        values.update(await connection.scalars(of_them))
    await _forget(connection, requests, wanted)
    await _forget(connection, request_values, values)


async def _forget(connection: AsyncConnection, table: Table, ids: Iterable[int]) -> None:
    wanted = sorted(set(ids))
    if wanted and connection.dialect.name == "postgresql":
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
    for some in portions(wanted):
        unused = _unused(table, some)
        if connection.dialect.name == "postgresql":
            # A statement of its own, so that the DELETE sees the rows of writers it waited for; in the order of
            # writers.
            await connection.execute(select(table.c.id).where(*unused).order_by(table.c.digest).with_for_update())
        await connection.execute(delete(table).where(*unused))


def _unused(table: Table, ids: Iterable[int]) -> list[ColumnElement[bool]]:
    conditions: list[Any] = [table.c.id.in_(ids), *(~used for used in USED[table])]
    return conditions
