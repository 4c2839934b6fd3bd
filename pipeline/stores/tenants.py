"""All that a store has of one tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, delete, func, select
from sqlalchemy import tuple_ as row_of

from pipeline.stores import usage_sums
from pipeline.stores.keys import thread_of
from pipeline.stores.list_statements import of_tenant
from pipeline.stores.lookups import certain
from pipeline.stores.schema import threads, usage_names
from pipeline.stores.schema import usage_sums as sums_table
from pipeline.stores.statements import NAME
from pipeline.stores.summing import SummedUsage
from pipeline.stores.unused_names import forget_names
from pipeline.stores.usage_tallies import SPANS
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
            await certain(connection)
            query = select(func.count()).where(_sums_of(tenant))
            return int(await connection.scalar(query) or 0)

    async def forget_sums(self, tenant: str) -> None:
        """Delete the sums of a tenant's expired turns; those of stored turns follow from these."""
        while await self.sum_up():
            pass
        async with self._writing() as connection:
            await usage_sums.alone(connection, wait=True)
            await certain(connection)
            await connection.execute(delete(sums_table).where(_sums_of(tenant), sums_table.c.expired))
            await forget_names(connection, await connection.scalars(_names_of(tenant)))


def threads_of_tenant(tenant: str, after: tuple[int, int]) -> Select[Any]:
    """-> name, updated_at, id of the next of a tenant's rows of `threads`."""
    order = threads.c.updated_at, threads.c.id
    query = select(*NAME, *order).where(*of_tenant(tenant))
    return query.where(row_of(*order) > row_of(*after)).order_by(*order).limit(AT_ONCE)


def _names_of(tenant: str) -> Select[Any]:
    name = column_text(tenant)
    return select(usage_names.c.id).where(usage_names.c.tenant == name if name else usage_names.c.tenant.is_(None))


def _sums_of(tenant: str) -> ColumnElement[bool]:
    return and_(sums_table.c.span.in_(SPANS), sums_table.c.names.in_(_names_of(tenant)))
