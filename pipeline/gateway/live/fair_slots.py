"""A few places for many callers, who get them in turn by tenant."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Waiting = asyncio.Future[None]


class FairSlots:
    """`most` callers are in at once. A tenant with a thousand that wait delays another one by a single turn."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: OrderedDict[str | None, deque[Waiting]] = OrderedDict()  # the tenant whose turn is next first

    @asynccontextmanager
    async def taken(self, tenant: str | None) -> AsyncIterator[None]:
        """Wait for a place, and hold it during the block."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(tenant)
        try:
            yield
        finally:
            self._give()

    async def _turn(self, tenant: str | None) -> None:
        mine: Waiting = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():  # the place was given at the same moment
                self._give()
            raise

    def _give(self) -> None:
        """Give a place to the request that waits next; one whose client has gone is passed over."""
        while self._waiting:
            tenant, those = self._waiting.popitem(last=False)
            first = those.popleft()
            if those:
                self._waiting[tenant] = those
            if not first.done():
                first.set_result(None)
                return
        self._free += 1
