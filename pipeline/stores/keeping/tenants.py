"""All data that a store has of one tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from sqlalchemy import Select, delete, select
from sqlalchemy import tuple_ as row_of

from pipeline.stores.database.keys import thread_of
from pipeline.stores.database.schema import expired, notices, threads
from pipeline.stores.database.schema import usage_sums as sums_table
from pipeline.stores.keeping.places import names_of, of_notice, rows_left, sums_of
from pipeline.stores.threads.list_statements import of_tenant
from pipeline.stores.threads.lookups import certain
from pipeline.stores.threads.statements import NAME
from pipeline.stores.threads.unused_names import forget_names
from pipeline.stores.threads.versions import portions
from pipeline.stores.usage import sums as usage_sums
from pipeline.stores.usage.summing import SummedUsage
from topics.thread_key import ThreadKey

BATCH_SIZE: Final = 200


class OfTenants(SummedUsage):
    """Tenants are named as in ThreadStore: "" means data without a tenant. Every method raises StoreError."""

    async def threads_of(self, tenant: str) -> AsyncIterator[ThreadKey]:
        """Yield a tenant's threads, each once, the least recently updated first."""
        after = (-1, 0)
        while True:
            async with self._reading() as connection:
                rows = (await connection.execute(threads_of_tenant(tenant, after))).all()
            for row in rows:
                yield thread_of(row)
            if not rows:
                return
            after = rows[-1].updated_at, rows[-1].id

    async def rows_left(self, tenant: str) -> dict[str, int]:
        """Return how many rows of each table in `pipeline.stores.keeping.places` contain data of a tenant."""
        async with self._reading() as connection:
            await certain(connection)
            return await rows_left(connection, tenant)

    async def expired_of(self, tenant: str) -> set[ThreadKey]:
        """Return a tenant's threads that have expired, and of which something may remain elsewhere."""
        async with self._reading() as connection:
            names = (ThreadKey.of(*name) for name in await connection.scalars(select(expired.c.name)))
            return {key for key in names if (key.tenant or "") == tenant}

    async def forget_notices(self, tenant: str) -> None:
        """Delete a tenant's notices, except those of deletions."""
        async with self._writing() as connection:
            found = (await connection.execute(select(notices.c.id, notices.c.record))).all()
            gone = [row.id for row in found if of_notice(row.record) == tenant]
            for some in portions(gone):
                await connection.execute(delete(notices).where(notices.c.id.in_(some)))

    async def forget_sums(self, tenant: str) -> None:
        """Delete the sums of a tenant's expired turns; those of stored turns are derived from these turns."""
        while await self.sum_up():
            pass
        async with self._writing() as connection:
            await usage_sums.alone(connection, wait=True)
            await certain(connection)
            await connection.execute(delete(sums_table).where(sums_of(tenant), sums_table.c.expired))
            await forget_names(connection, await connection.scalars(names_of(tenant)))


def threads_of_tenant(tenant: str, after: tuple[int, int]) -> Select[Any]:
    """Return a query of name, updated_at and id of the next of a tenant's rows of `threads`."""
    order = threads.c.updated_at, threads.c.id
    query = select(*NAME, *order).where(*of_tenant(tenant))
    return query.where(row_of(*order) > row_of(*after)).order_by(*order).limit(BATCH_SIZE)
