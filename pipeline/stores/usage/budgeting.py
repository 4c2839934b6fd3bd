"""The used amount of each budget: a query of the sums of usage, plus the usage of deleted threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pipeline.policies.budgets import Budget, State
from pipeline.stores.database.bounded_sum import MAX_INTEGER
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.usage.deleted import of_scope
from pipeline.stores.usage.query import report
from pipeline.stores.usage.report import UsageQuery, UsageReport

TENANTS: Final = 100  # the tenants listed separately: those that have used most


async def states(store: ThreadStore, budgets: Iterable[Budget], now: int) -> Sequence[State]:
    """Return the budgets' states at `now` (epoch ms), from stored turns and deleted ones. Imported turns don't count.

    Raises StoreError.
    """
    return [await _state(store, budget, now) for budget in budgets]


async def _state(store: ThreadStore, budget: Budget, now: int) -> State:
    start, end = budget.window(now)
    bound = (("tenant", budget.tenant), ("agent", budget.agent), ("model", budget.model), ("origin", ""))
    where = {name: (value,) for name, value in bound if value is not None}
    by = ("tenant",) if budget.tenant is None else ()
    unit = "total_tokens" if budget.unit == "tokens" else "cost_nano_usd"
    order = "total_tokens" if budget.unit == "tokens" else "cost_usd"
    query = UsageQuery(by, start=start, end=end, where=where, limit=TENANTS, order=order)
    report, deleted = await budget_usage(store, query, budget.scope)
    each = ((None if row.other else row.group["tenant"] or "", row.figures) for row in report.rows if by)
    used = {name: getattr(figures, unit) for name, figures in each}
    for tenant, amount in deleted.items() if by else ():
        used[tenant] = used.get(tenant, 0) + amount
    return State(budget, min(getattr(report.total, unit) + sum(deleted.values()), MAX_INTEGER), start, end, used)


async def budget_usage(store: ThreadStore, query: UsageQuery, scope: str) -> tuple[UsageReport, dict[str, int]]:
    """Return a report of usage, and the usage of deleted threads by tenant.

    The latter counts towards the budgets of this scope, in the window that begins as the query does.
    """
    async with store.snapshot() as connection:
        usage = await report(connection, query)
        return usage, await of_scope(connection, scope, query.start or 0)
