"""The slots in which the store is searched, threads are read, and calls run in worker threads; tenants have shares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Final, ParamSpec, TypeVar

from pipeline.gateway.state import Service, provided
from pipeline.policies.pools import ASIDE, READS, SEARCHES
from pipeline.policies.slots import Slots

SMALL_BYTES: Final = 16_384  # bodies up to this size are parsed in the event loop
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class StoreSlots(Service):
    """`searches`: for searches, and lists that search or sift; `reads`: for whole threads in memory."""

    def __init__(self) -> None:
        self.searches = Slots(SEARCHES.size)
        self.reads = Slots(READS.size)


TheSlots = Annotated[StoreSlots, provided(StoreSlots)]


class Aside(Service):
    """Runs calls in threads, of which each tenant has a share. The limit of open requests bounds the waiting calls."""

    def __init__(self) -> None:
        self._slots = Slots(ASIDE.size)

    async def run(
        self, tenant: str | None, call: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call in a thread as soon as the tenant's share of the threads allows it."""
        async with self._slots.taken(tenant):
            return await asyncio.to_thread(call, *args, **kwargs)


TheAside = Annotated[Aside, provided(Aside)]
