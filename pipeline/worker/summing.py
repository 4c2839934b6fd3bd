"""Keeps the sums of usage up while the store role runs: it takes up what was noted, and builds what is missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pipeline.errors import StoreError
from pipeline.stores.sql import ThreadStore

STEP: Final = 5.0  # seconds between two steps: what changes the same sums is added to them once
MORE: Final = 0.1  # the same, where there is more to do
AGAIN: Final = 10.0  # seconds after a failure

log = logging.getLogger(__name__)


class Summing:
    """One step at a time, beside the role's own work; several workers may do so at once.

    `wanted`: whether there are to be sums.
    """

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]], *, wanted: bool) -> None:
        self._store = store
        self._wanted = wanted
        self._decided = False
        self._next = 0.0
        self._under_way: asyncio.Task[None] | None = None

    def step(self) -> None:
        """Begin to take some changes up, if it is time to."""
        idle = self._under_way is None or self._under_way.done()
        if idle and asyncio.get_running_loop().time() >= self._next:
            self._under_way = asyncio.create_task(self._step())

    async def _step(self) -> None:
        """What fails is tried again later; readers count the changes until then."""
        pause = AGAIN
        try:
            store = await self._store()
            if not self._decided:
                await store.keep_sums(wanted=self._wanted)
                self._decided = True
            pause = MORE if await store.sum_up() else STEP
        except StoreError as error:
            log.warning("the sums of usage wait to be kept up: %s", error)
        except Exception:  # whatever it is, turns are stored
            log.exception("the sums of usage wait to be kept up")
        self._next = asyncio.get_running_loop().time() + pause
