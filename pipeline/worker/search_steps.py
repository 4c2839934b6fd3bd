"""The words of turns that an older version has stored are kept, too, so that a search finds them: in small steps, while
the store role runs. With THREADMILL_SEARCH=off the same steps delete the words of all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pipeline.errors import StoreError
from pipeline.stores.sql import ThreadStore

BUSY: Final = 0.2  # seconds, some transactions long, that are followed by PAUSE: others write meanwhile
PAUSE: Final = 0.6
AGAIN: Final = 60.0  # seconds until the next look where nothing was left: older store roles may still write

log = logging.getLogger(__name__)


class SearchSteps:
    """One step at a time, beside the role's own work; several workers may do so at once."""

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]]) -> None:
        self._store = store
        self._next = 0.0
        self._under_way: asyncio.Task[None] | None = None

    def step(self) -> None:
        """Begin to look after some turns, if it is time to."""
        idle = self._under_way is None or self._under_way.done()
        if idle and asyncio.get_running_loop().time() >= self._next:
            self._under_way = asyncio.create_task(self._step())

    async def _step(self) -> None:
        """What fails is tried again later."""
        loop = asyncio.get_running_loop()
        end, done = loop.time() + BUSY, 1
        try:
            store = await self._store()
            while done and loop.time() < end:
                done = await store.index_some()
        except StoreError as error:
            log.warning("turns of an older version wait to be searched: %s", error)
            done = 0
        except Exception:  # whatever it is, turns are stored
            log.exception("turns of an older version wait to be searched")
            done = 0
        self._next = loop.time() + (PAUSE if done else AGAIN)
