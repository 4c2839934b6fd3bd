"""Add the words of turns that were stored with TURNMILL_SEARCH=off, in small steps while the store role runs. With that
setting the same steps delete the words of all turns.
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
AGAIN: Final = 60.0  # seconds until the next look where nothing was left: other store roles may have the other setting

log = logging.getLogger(__name__)


class SearchSteps:
    """One step at a time, beside the role's own work; several workers may do so at once."""

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]]) -> None:
        self._store = store
        self.steps = Steps(self._step, AGAIN, log, "turns wait for their words to be searched")

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
