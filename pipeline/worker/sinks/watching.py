"""The store role's watches: they compare usage with budgets, and figures with the thresholds of alerts."""

from collections.abc import Sequence
from typing import Final

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.policies.alerts import Alert
from pipeline.policies.budgets import Budget
from pipeline.stores.outbound.notices import KNOWN_MS, add_notices
from pipeline.stores.usage.alerts import look
from pipeline.stores.usage.budgets import forget_windows, states
from pipeline.worker.sinks.housekeeping import Housekeeper, OpenStore
from turnmill.clock import now_ms

# Seconds between two looks.
BUDGETS_INTERVAL: Final = 10.0
ALERTS_INTERVAL: Final = 30.0
NONE_INTERVAL: Final = 600.0  # without budgets, or alerts; data of earlier ones may be left


class BudgetWatch(Housekeeper):
    """Adds a notice when a budget is reached: one for each budget, window and level, from any worker.

    Each worker with a partition checks; the store accepts a notice's id only once.
    """

    retry_delay = BUDGETS_INTERVAL
    failed = "what is used of the budgets is not known"

    def __init__(self, budgets: Sequence[Budget], store: OpenStore, metrics: Metrics) -> None:
        super().__init__(store)
        self._budgets = budgets
        self._metrics = metrics
        self._notified: set[str] = set()

    async def _step(self) -> float:
        now = now_ms()
        store = await self._store()
        notified = set[str]()
        for state in await states(store, self._budgets, now):
            self._metrics.set(m.BUDGET_USED, state.ratio, budget=state.budget.name)
            notices = state.notices(now)
            new = [notice for notice in notices if notice["id"] not in self._notified]
            if new:
                await add_notices(store, new, keep_until=state.end + KNOWN_MS)
            notified |= {notice["id"] for notice in notices}
        self._notified = notified
        await forget_windows(store, now)
        return BUDGETS_INTERVAL if self._budgets else NONE_INTERVAL


class AlertWatch(Housekeeper):
    """Notes which alerts are on, with a notice when one begins and when it ends.

    Each worker with a partition looks; the store lets a single worker begin or end an alert.
    """

    retry_delay = ALERTS_INTERVAL
    failed = "the figures of alerts are not known"

    def __init__(self, alerts: Sequence[Alert], store: OpenStore) -> None:
        super().__init__(store)
        self._alerts = alerts

    async def _step(self) -> float:
        await look(await self._store(), self._alerts, now_ms())
        return ALERTS_INTERVAL if self._alerts else NONE_INTERVAL
