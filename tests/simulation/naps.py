"""`asyncio.sleep` for the simulated loop: half of all that happens in a schedule is somebody who wakes up."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextvars import Context
from types import coroutine
from typing import Any, Final

from tests.simulation.loop import SimulatedLoop


class Nap:
    """What a task awaits in `sleep`: a future whose timer is the task's own next step, which halves the steps."""

    __slots__ = ("_asyncio_future_blocking", "_loop", "cancelled", "seconds", "step")

    def __init__(self, loop: SimulatedLoop, seconds: float) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self.cancelled = False
        self.seconds = seconds
        self.step: asyncio.TimerHandle | None = None

    def __await__(self) -> Generator[Nap]:
        self._asyncio_future_blocking = True
        yield self

    def add_done_callback(self, wakeup: Any, *, context: Context) -> None:
        """Called by the task."""
        self.step = self._loop.call_later(self.seconds, wakeup, self, context=context)

    def cancel(self, msg: Any = None) -> bool:
        """Called where the task is cancelled."""
        step = self.step
        if self.cancelled or step is None:
            return False
        self.cancelled = True
        step.cancel()
        self._loop.call_soon(step._callback, self, context=step._context)
        return True

    def result(self) -> None:
        """Called by the task's next step."""
        if self.cancelled:
            raise asyncio.CancelledError


@coroutine
def _once() -> Generator[None]:
    """Let everything else that is ready run."""
    yield


_SLEEP: Final = asyncio.sleep


async def sleep(delay: float, result: Any = None) -> Any:
    """What stands in for `asyncio.sleep`."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, SimulatedLoop):
        return await _SLEEP(delay, result)
    if delay <= 0:
        await _once()
    else:
        await Nap(loop, delay)
    return result
