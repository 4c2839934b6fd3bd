"""All that a store has of one tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, delete, exists, func, select
from sqlalchemy import tuple_ as row_of

from pipeline.stores import usage_sums
from pipeline.stores.keys import thread_of
from pipeline.stores.list_statements import of_tenant
from pipeline.stores.schema import agents, thread_agents, threads, usage, usage_names
from pipeline.stores.schema import usage_sums as sums_table
from pipeline.stores.statements import NAME
from pipeline.stores.summing import SummedUsage
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey

AT_ONCE: Final = 200


class OfTenants(SummedUsage):
    """Tenants are named as in ThreadStore: "" means what has none. Every method raises StoreError."""

    async def threads_of(self, tenant: str) -> AsyncIterator[ThreadKey]:
        """A tenant's threads, each once, those that were updated first before the others."""
        after = (-1, 0)
        while True:
            async with self._reading() as connection:
                rows = (await connection.execute(threads_of_tenant(tenant, after))).all()
            for row in rows:
                yield thread_of(row)
            if not rows:
                return
            after = rows[-1].updated_at, rows[-1].id

    async def count_sums(self, tenant: str) -> int:
        """How many sums of usage have something of a tenant."""
        async with self._reading() as connection:
            query = select(func.count()).select_from(sums_table.join(usage_names)).where(_named(tenant))
            return int(await connection.scalar(query) or 0)

    async def forget_sums(self, tenant: str) -> None:
        """Delete the sums of a tenant's expired turns; those of stored turns follow from these."""
        while await self.sum_up():
            pass
        async with self._writing() as connection:
            await usage_sums.alone(connection, wait=True)
            names = select(usage_names.c.id).where(_named(tenant))
            await connection.execute(delete(sums_table).where(sums_table.c.expired, sums_table.c.names.in_(names)))
            in_sums = exists().where(sums_table.c.names == usage_names.c.id)
            in_rows = exists().where(usage.c.names == usage_names.c.id)
            await connection.execute(delete(usage_names).where(_named(tenant), ~in_sums, ~in_rows))
            spoken = exists().where(thread_agents.c.agent == agents.c.id)
            await connection.execute(delete(agents).where(~spoken))


def threads_of_tenant(tenant: str, after: tuple[int, int]) -> Select[Any]:
    """-> name, updated_at, id of the next of a tenant's rows of `threads`."""
    order = threads.c.updated_at, threads.c.id
    query = select(*NAME, *order).where(*of_tenant(tenant))
    return query.where(row_of(*order) > row_of(*after)).order_by(*order).limit(AT_ONCE)


def _named(tenant: str) -> ColumnElement[bool]:
    name = column_text(tenant)
    return usage_names.c.tenant == name if name else usage_names.c.tenant.is_(None)
