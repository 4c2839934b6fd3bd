"""Names, and what models were asked, go with the last row that has them: a deletion keeps nobody's name.

All of it is within the caller's transaction.

On Postgres a writer holds the names that it is about to use (`names.ids_of`), so whoever deletes one waits for it, and
then sees that it is in use; a writer that comes later waits for the deletion, and adds the name again. Deletions take
turns: two of them may otherwise each take the other one's rows for a use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, delete, exists, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.schema import (
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
from pipeline.stores.usage_tallies import WEEK
from pipeline.stores.versions import portions

LOCK_KEY: Final = 0x74726E6D6E616D  # of Postgres' advisory lock: "trnmnam"
USED: Final = {  # a name is one of these rows'; every sum is also in that of its week
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
    """Delete those of these agents that speak in no thread any more."""
    await _forget(connection, agents, ids)


async def forget_names(connection: AsyncConnection, ids: Iterable[int]) -> None:
    """Delete those of these names of `usage_names` that no usage, no sum and no change has any more."""
    await _forget(connection, usage_names, ids)


async def forget_requests(connection: AsyncConnection, ids: Iterable[int]) -> None:
    """Delete those of these requests that no turn names any more, with values that no other request has."""
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
            # By itself, so that the DELETE sees what those have written for whom this waits; ordered as writers order.
            await connection.execute(select(table.c.id).where(*unused).order_by(table.c.digest).with_for_update())
        await connection.execute(delete(table).where(*unused))


def _unused(table: Table, ids: Iterable[int]) -> list[ColumnElement[bool]]:
    conditions: list[Any] = [table.c.id.in_(ids), *(~used for used in USED[table])]
    return conditions
