"""Says as a metric what the last hour has cost, read from the store: it holds over restarts, and holds all costs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.stores.sql import ThreadStore
from pipeline.turns.tokens import NANO
from pipeline.worker.steps import Steps
from turnmill.clock import now_ms

EVERY: Final = 30.0  # seconds between two looks
HOUR_MS: Final = 3_600_000

log = logging.getLogger(__name__)


class Spending:
    """Beside the store role's own work. Each worker with a partition looks, and all see the same."""

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]], metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self.steps = self._begin()

    def _begin(self) -> Steps:
        return Steps(self._step, EVERY, log, "what the last hour has cost is not known")

    def step(self) -> None:
        """Look, if it is time to."""
        self.steps.begin()

    def stop(self) -> None:
        """Say nothing any more, as nobody calls `step` from now on who could correct it; the next `step` looks anew."""
        self.steps = self._begin()
        self._metrics.set(m.COST_LAST_HOUR, 0)

    async def _step(self) -> float:
        mine = self.steps
        cost = await (await self._store()).spent(now_ms() - HOUR_MS)
        if self.steps is mine:
            self._metrics.set(m.COST_LAST_HOUR, cost / NANO)
        return EVERY
