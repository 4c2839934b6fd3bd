"""All that a store has of one tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, delete, func, select
from sqlalchemy import tuple_ as row_of

from pipeline.stores import older_statements, usage_sums
from pipeline.stores.documents import keys_of
from pipeline.stores.keys import NO_TENANT
from pipeline.stores.schema import threads, usage_names
from pipeline.stores.schema import usage_sums as sums_table
from pipeline.stores.summing import SummedUsage
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey

AT_ONCE: Final = 200


class OfTenants(SummedUsage):
    """Tenants are named as in ThreadStore: "" means what has none. Every method raises StoreError."""

    async def threads_of(self, tenant: str) -> AsyncIterator[ThreadKey]:
        """A tenant's threads, each once, those that were updated first before the others."""
        after = (-1, "")
        while True:
            async with self._reading() as connection:
                rows = (await connection.execute(of_tenant(tenant, after))).all()
                found = await keys_of(connection, [(row.thread_key, row.tenant) for row in rows])
            if not rows:
                break
            after = (rows[-1].updated_at, rows[-1].thread_key)
            for key in dict.fromkeys(key for keys in found.values() for key in keys):
                if (key.tenant or "") == tenant:
                    yield key
        text = ""
        while True:  # rows of a version before tenants, which may hold several tenants' turns
            async with self._reading() as connection:
                older = await connection.scalar(older_statements.key_behind(text))
                keys = (await keys_of(connection, [(older, NO_TENANT)]))[older] if older is not None else []
            if older is None:
                return
            text = older
            for key in keys:
                if (key.tenant or "") == tenant:
                    yield key

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
            used = select(sums_table.c.names)
            await connection.execute(delete(usage_names).where(_named(tenant), usage_names.c.id.not_in(used)))


def of_tenant(tenant: str, after: tuple[int, str]) -> Select[Any]:
    """-> thread_key, tenant, updated_at of the next of a tenant's rows of `threads`."""
    order = threads.c.updated_at, threads.c.thread_key
    name = column_text(tenant)
    mine = threads.c.tenant == name if name else threads.c.tenant.is_(None)
    query = select(threads.c.thread_key, threads.c.tenant, threads.c.updated_at).where(mine)
    return query.where(row_of(*order) > row_of(*after)).order_by(*order).limit(AT_ONCE)


def _named(tenant: str) -> ColumnElement[bool]:
    name = column_text(tenant)
    return usage_names.c.tenant == name if name else usage_names.c.tenant.is_(None)
