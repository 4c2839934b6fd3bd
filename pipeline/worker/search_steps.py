"""The words of turns that an older version has stored are kept, too, so that a search finds them: in small steps, while
the store role runs. With TURNMILL_SEARCH=off the same steps delete the words of all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pipeline.stores.sql import ThreadStore
from pipeline.worker.steps import Steps

BUSY: Final = 0.2  # seconds, some transactions long, that are followed by PAUSE: others write meanwhile
PAUSE: Final = 0.6
AGAIN: Final = 60.0  # seconds until the next look where nothing was left: older store roles may still write

log = logging.getLogger(__name__)


class SearchSteps:
    """One step at a time, beside the role's own work; several workers may do so at once."""

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]]) -> None:
        self._store = store
        self.steps = Steps(self._step, AGAIN, log, "turns of an older version wait to be searched")

    def step(self) -> None:
        """Begin to look after some turns, if it is time to."""
        self.steps.begin()

    async def _step(self) -> float:
        loop = asyncio.get_running_loop()
        end, done = loop.time() + BUSY, 1
        store = await self._store()
        while done and loop.time() < end:
            done = await store.index_some()
        return PAUSE if done else AGAIN
