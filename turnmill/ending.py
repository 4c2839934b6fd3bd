"""End tasks and clients reliably, even if a cancellation gets lost.

While aiokafka stops a client, it mistakes a cancellation of its caller for that of its tasks, and continues.
`asyncio.wait_for` of Python 3.11 also loses a cancellation if the result arrives at the same moment. The cancelled task
would then run for ever.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Any, Final

CANCEL_INTERVAL: Final = 2.0  # seconds after which a task is cancelled again
END_TIMEOUT: Final = 5.0  # seconds

log = logging.getLogger(__name__)


async def ended(task: asyncio.Task[Any], within: float = END_TIMEOUT) -> bool:
    """Cancel a task, repeatedly if need be, and wait at most `within` seconds. Return whether it has ended."""
    deadline = time.monotonic() + within
    while not task.done() and (left := deadline - time.monotonic()) > 0:
        task.cancel()
        await asyncio.wait([task], timeout=min(left, CANCEL_INTERVAL))
    if not task.done():
        log.warning("%s was cancelled %.0f s ago, and goes on", task.get_name(), within)
    return task.done()


async def stopped(stopping: Awaitable[None], within: float = END_TIMEOUT) -> None:
    """Await a client's stop for at most `within` seconds; if it takes longer, it goes on in the background.

    It runs in a separate task, so that it can't mistake the caller's cancellation. Raises what `stopping` raises.
    """
    await in_time(asyncio.shield(stopping), within)


async def in_time(call: Awaitable[object], within: float) -> bool:
    """Await a call, for at most `within` seconds; then cancel it, and return False. Raises what it raises."""
    try:
        async with asyncio.timeout(within):
            await call
    except TimeoutError:
        return False
    return True
