"""Keeps the sums of usage up while the store role runs: it takes up what was noted, and builds what is missing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pipeline.stores.sql import ThreadStore
from pipeline.worker.steps import Steps

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
        # Readers count the changes that wait.
        self.steps = Steps(self._step, AGAIN, log, "the sums of usage wait to be kept up")

    def step(self) -> None:
        """Begin to take some changes up, if it is time to."""
        self.steps.begin()

    async def _step(self) -> float:
        store = await self._store()
        if not self._decided:
            await store.keep_sums(wanted=self._wanted)
            self._decided = True
        return MORE if await store.sum_up() else STEP
