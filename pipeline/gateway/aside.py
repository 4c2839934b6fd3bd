"""Threads for what would hold the event loop, and all callers with it, for more than some milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from pipeline.policies.pools import ASIDE
from pipeline.policies.slots import Slots

SMALL: Final = 16_384  # bytes that are read in the loop

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Aside:
    """Each tenant has its share of the threads. What waits is bounded by the requests that a caller may have open."""

    def __init__(self) -> None:
        self._slots = Slots(ASIDE.size)

    async def run(
        self, tenant: str | None, call: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call in a thread, once it is the tenant's turn."""
        async with self._slots.taken(tenant):
            return await asyncio.to_thread(call, *args, **kwargs)
