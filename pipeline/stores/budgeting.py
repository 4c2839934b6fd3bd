"""What of the budgets is used: a query of the sums of usage for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.budgets import Budget, State
from pipeline.stores.sql import ThreadStore
from pipeline.stores.usage_report import UsageQuery


async def states(store: ThreadStore, budgets: Iterable[Budget], now: int) -> Sequence[State]:
    """At `now` (epoch ms), from the stored turns. Raises StoreError."""
    return [await _state(store, budget, now) for budget in budgets]


async def _state(store: ThreadStore, budget: Budget, now: int) -> State:
    start, end = budget.window(now)
    bound = (("tenant", budget.tenant), ("agent", budget.agent), ("model", budget.model))
    where = {name: (value,) for name, value in bound if value is not None}
    total = (await store.usage(UsageQuery(start=start, end=end, where=where, limit=1))).total
    used = total.total_tokens if budget.unit == "tokens" else total.cost_nano_usd
    return State(budget, used, start, end)
