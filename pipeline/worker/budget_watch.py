"""Says when a budget is reached: once for each budget, window and level, whichever worker sees it first."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.budgeting import states
from pipeline.stores.sql import ThreadStore
from pipeline.worker.steps import Steps
from turnmill.clock import now_ms

EVERY: Final = 10.0  # seconds between two looks
SELDOM: Final = 600.0  # the same without budgets, of which something may be left
KNOWN_MS: Final = 86_400_000  # for which a notice stays known behind its window

log = logging.getLogger(__name__)


class BudgetWatch:
    """Beside the store role's own work. Each worker with a partition looks; the store takes a notice's id once."""

    def __init__(self, settings: Settings, store: Callable[[], Awaitable[ThreadStore]], metrics: Metrics) -> None:
        self._budgets = settings.budget_list
        self._store = store
        self._metrics = metrics
        self._said: set[str] = set()
        self.steps = Steps(self._step, EVERY, log, "what is used of the budgets is not known")

    def step(self) -> None:
        """Look, if it is time to."""
        self.steps.begin()

    async def _step(self) -> float:
        now = now_ms()
        store = await self._store()
        for state in await states(store, self._budgets, now):
            self._metrics.set(m.BUDGET_USED, state.ratio, budget=state.budget.name)
            new = [one for one in state.notices(now) if one["id"] not in self._said]
            if new:
                await store.add_notices(new, keep_until=state.end + KNOWN_MS)
                self._said |= {one["id"] for one in new}
        await store.forget_windows(now)
        return EVERY if self._budgets else SELDOM
