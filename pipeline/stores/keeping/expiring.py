"""A store whose threads expire: finding and deleting them, and recording what may remain of them elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import or_, update

from pipeline.policies.retention import Retention
from pipeline.stores.database.connections import Connected, to_the_end
from pipeline.stores.database.schema import expiry_state
from pipeline.stores.keeping import expired_remnants, expired_threads
from pipeline.stores.keeping.expired_remnants import Remnant
from pipeline.stores.keeping.expired_threads import Ripe, RoundPosition
from topics.thread_key import ThreadKey

REMNANTS_BATCH: Final = 1000


class Expiring(Connected):
    """See `pipeline.stores.keeping.expired_threads`. Every method raises StoreError; times in epoch ms."""

    async def next_ripe(
        self, retention: Retention, now: int, after: RoundPosition
    ) -> tuple[list[Ripe], RoundPosition | None]:
        """Return some expired threads, held ones too, and the next position; None after the last."""
        async with self._reading() as connection:
            return await expired_threads.next_ripe(connection, retention, now, after)

    async def expire(self, keys: Iterable[ThreadKey], retention: Retention, now: int) -> list[Ripe]:
        """Delete the rows of those of these threads that have expired and are not held; return them. One transaction.

        A thread that got a turn meanwhile stays.
        """

        async def transaction() -> list[Ripe]:
            async with self._writing() as connection:
                return await expired_threads.expire(connection, keys, retention, now)

        return await to_the_end(transaction())

    async def expired_remnants(self, now: int) -> list[Remnant]:
        """Return the due expired threads of which large values or archived rows may remain."""
        async with self._reading() as connection:
            return await expired_remnants.due(connection, now, REMNANTS_BATCH)

    async def looked_at(self, left: Sequence[Remnant], clean: Sequence[Remnant]) -> None:
        """Set when `left` are due for the next check; forget `clean`, of which nothing remains."""
        async with self._writing() as connection:
            await expired_remnants.looked_at(connection, left, clean)

    async def lease_expiry(self, holder: str, now: int, until: int) -> bool:
        """Take or renew the lease of the expiry until `until`; return False if another process has it."""
        free = or_(expiry_state.c.holder == holder, expiry_state.c.until <= now)
        async with self._writing() as connection:
            taken = await connection.execute(update(expiry_state).where(free).values(holder=holder, until=until))
            return taken.rowcount > 0
