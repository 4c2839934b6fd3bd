"""The end of tasks and clients, also where a cancellation is lost.

While aiokafka stops a client, it takes a cancellation of its caller for that of its own tasks, and goes on; so does
`asyncio.wait_for` of Python 3.11 where the answer comes at the same moment. A task that was cancelled then would run
for ever.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final

AGAIN: Final = 2.0  # seconds after which a task is cancelled again
END_WITHIN: Final = 5.0  # seconds

log = logging.getLogger(__name__)


async def ended(task: asyncio.Task[Any], within: float = END_WITHIN) -> bool:
    """Cancel a task, more than once if need be, and wait for at most `within` seconds -> whether it is over."""
    deadline = time.monotonic() + within
    while not task.done() and (left := deadline - time.monotonic()) > 0:
        task.cancel()
        await asyncio.wait([task], timeout=min(left, AGAIN))
    if not task.done():
        log.warning("%s was cancelled %.0f s ago, and goes on", task.get_name(), within)
    return task.done()


async def stopped(stopping: Awaitable[None], within: float = END_WITHIN) -> None:
    """Await a client's stop for at most `within` seconds; it goes on by itself where it takes longer.

    In a task of its own it can't take the caller's cancellation for that of another. Raises what `stopping` raises.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await asyncio.shield(stopping)
