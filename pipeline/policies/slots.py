"""A pool of slots for which callers wait; each tenant gets its share."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from turnmill.shares import Shares

Waiting = asyncio.Future[None]


class Slots:
    """A pool of `size` slots, shared by tenants.

    A tenant must leave some free for the next one (`Shares.allows`). Of the waiting tenants, the one that holds the
    fewest slots gets the next.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._shares = Shares()
        self._waiting: OrderedDict[str | None, deque[Waiting]] = OrderedDict()

    def waiting(self, tenant: str | None) -> int:
        """Return how many callers of a tenant wait."""
        return len(self._waiting.get(tenant, ()))

    @asynccontextmanager
    async def taken(self, tenant: str | None) -> AsyncIterator[None]:
        """Wait for a slot, and hold it during the block."""
        await self.take(tenant)
        try:
            yield
        finally:
            self.give(tenant)

    async def take(self, tenant: str | None) -> None:
        """Wait for a slot, which the caller holds until it calls `give`."""
        if tenant not in self._waiting and self._shares.allows(tenant, 1, self._size):
            self._shares.add(tenant, 1)
        else:
            await self._turn(tenant)

    def give(self, tenant: str | None) -> None:
        """Return a slot to the pool; free slots go to waiting callers."""
        self._shares.add(tenant, -1)
        while True:
            may = [waiter for waiter in self._waiting if self._shares.allows(waiter, 1, self._size)]
            if not may:
                return
            following = min(may, key=self._shares.held)  # the first one if several hold as few
            those = self._waiting.pop(following)
            first = those.popleft()
            if those:
                self._waiting[following] = those
            if not first.done():
                self._shares.add(following, 1)
                first.set_result(None)

    async def _turn(self, tenant: str | None) -> None:
        mine: Waiting = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.cancelled():
                self._forget(tenant, mine)
            else:  # the slot was given at the same moment
                self.give(tenant)
            raise

    def _forget(self, tenant: str | None, mine: Waiting) -> None:
        those = self._waiting.get(tenant, deque())
        if mine in those:
            those.remove(mine)
            if not those:
                del self._waiting[tenant]
