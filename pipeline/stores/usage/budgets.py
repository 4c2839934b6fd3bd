"""The used amount of each budget: the sums of usage, plus the usage of deleted threads.

The latter are numbers by budget, window and tenant, which are deleted when the window is over. They are written in the
transaction that deletes the thread, so that all processes see the same used amount at any time.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, case, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.policies.budgets import Budget, State
from pipeline.stores.database.expressions import MAX_INTEGER, BoundedSum
from pipeline.stores.database.ids import INSERT
from pipeline.stores.database.schema import deleted_usage, turns, usage, usage_names
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.statements import number_of
from pipeline.stores.usage.query import report
from pipeline.stores.usage.report import UsageQuery
from pipeline.turns.column_text import column_text
from topics import json_text
from topics.thread_key import ThreadKey
from turnmill.labels import KEYS

TENANTS: Final = 100  # the tenants listed separately: those that have used most
UNITS: Final = {"tokens": usage.c.total_tokens, "nano_usd": usage.c.cost_nano_usd}


async def note(connection: AsyncConnection, thread: ThreadKey, budgets: Iterable[Budget], now: int) -> None:
    """Add a thread's usage in the windows of `now` (epoch ms), as its rows are deleted; forget past windows."""
    tenant = column_text(thread.tenant) or ""
    counting = {budget.scope: budget for budget in budgets if budget.tenant in (None, thread.tenant or "")}
    parts = {window: await _used(connection, thread, *window) for window in {b.window(now) for b in counting.values()}}
    rows = []
    for scope, budget in sorted(counting.items()):
        start, end = budget.window(now)
        wanted = [(column_text(budget.agent), "agent_id"), (column_text(budget.model), "model")]
        wanted += [(column_text(label), kind) for kind, label in budget.labels if kind != "tag"]
        tags = {column_text(label) for kind, label in budget.labels if kind == "tag"}
        counted = [row for row in parts[start, end] if all(text in (None, row[name]) for text, name in wanted)]
        counted = [row for row in counted if not tags or tags <= {*json_text.loads(row["tags"] or "[]")}]
        if used := min(sum(row[budget.unit] or 0 for row in counted), MAX_INTEGER):
            rows.append({"scope": scope, "start": start, "end": end, "tenant": tenant, "used": used})
    if rows:
        new, known = INSERT[connection.dialect.name](deleted_usage), deleted_usage.c.used
        most = MAX_INTEGER - new.excluded.used
        added = {"used": case((known > most, MAX_INTEGER), else_=known + new.excluded.used)}
        await connection.execute(new.on_conflict_do_update(index_elements=deleted_usage.primary_key, set_=added), rows)
    await connection.execute(delete(deleted_usage).where(_over(now)))


async def _used(connection: AsyncConnection, thread: ThreadKey, start: int, end: int) -> list[dict[str, Any]]:
    mine = select(turns.c.id).where(turns.c.thread == number_of(thread))
    names = tuple(usage_names.c[name] for name in ("agent_id", "model", *KEYS))
    sums = (BoundedSum(column).label(unit) for unit, column in UNITS.items())
    query = select(*names, *sums).join_from(usage, usage_names, usage.c.names == usage_names.c.id)
    query = query.where(usage.c.turn.in_(mine), usage.c.at >= start, usage.c.at < end, usage_names.c.origin == "")
    return [dict(row) for row in (await connection.execute(query.group_by(*names))).mappings()]


def _over(now: int) -> ColumnElement[bool]:
    return deleted_usage.c.end <= now


async def forget_windows(store: ThreadStore, now: int) -> None:
    """Delete the usage of windows that were over at `now` (epoch ms)."""
    if await store.rows(select(deleted_usage.c.scope).where(_over(now)).limit(1)):  # nearly always there is nothing
        await store.change(delete(deleted_usage).where(_over(now)))


async def forget_deleted_usage(store: ThreadStore, tenant: str) -> None:
    """Delete the usage of a tenant's deleted threads, "" for threads without a tenant."""
    await store.change(delete(deleted_usage).where(deleted_usage.c.tenant == (column_text(tenant) or "")))


async def states(store: ThreadStore, budgets: Iterable[Budget], now: int) -> Sequence[State]:
    """Return the budgets' states at `now` (epoch ms). Imported turns don't count. Raises StoreError."""
    return [await _state(store, budget, now) for budget in budgets]


async def _state(store: ThreadStore, budget: Budget, now: int) -> State:
    columns, (start, end) = deleted_usage.c, budget.window(now)
    bound = {"tenant": budget.tenant, "agent": budget.agent, "model": budget.model, "origin": "", **dict(budget.labels)}
    where = {name: (value,) for name, value in bound.items() if value is not None}
    by = ("tenant",) if budget.tenant is None else ()
    unit = "total_tokens" if budget.unit == "tokens" else "cost_nano_usd"
    order = "total_tokens" if budget.unit == "tokens" else "cost_usd"
    query = UsageQuery(by, start=start, end=end, where=where, limit=TENANTS, order=order)
    window = select(columns.tenant, columns.used).where(columns.scope == budget.scope, columns.start == start)
    async with store.snapshot() as connection:
        usage_of = await report(connection, query)
        deleted = {row.tenant: row.used for row in await connection.execute(window)}  # "" for no tenant
    each = ((None if row.other else row.group["tenant"] or "", row.figures) for row in usage_of.rows if by)
    used = {name: getattr(figures, unit) for name, figures in each}
    for tenant, amount in deleted.items() if by else ():
        used[tenant] = used.get(tenant, 0) + amount
    return State(budget, min(getattr(usage_of.total, unit) + sum(deleted.values()), MAX_INTEGER), start, end, used)
