"""Background work of the store role in steps: one at a time, with pauses, whether a step fails or not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pipeline.stores.database.errors import StoreError


class Steps:
    """A background task in steps.

    `begin` is called now and then, and begins a step if one is due. A failed step is retried later, and does not stop
    the storing of turns.
    """

    def __init__(self, step: Callable[[], Awaitable[float]], again: float, log: logging.Logger, failed: str) -> None:
        """Prepare the steps.

        `step` returns the seconds until the next one; after a failed one, these are `again`. `failed`: what waits then,
        for the log.
        """
        self._step = step
        self._again = again
        self._log = log
        self._failed = failed
        self._next = 0.0
        self.under_way: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin a step, if it is time to."""
        idle = self.under_way is None or self.under_way.done()
        if idle and asyncio.get_running_loop().time() >= self._next:
            self.under_way = asyncio.create_task(self._run())

    async def _run(self) -> None:
        pause = self._again
        try:
            pause = await self._step()
        except StoreError as error:
            self._log.warning("%s: %s", self._failed, error)
        except Exception:
            self._log.exception(self._failed)
        self._next = asyncio.get_running_loop().time() + pause
