"""Alerts in the store: the figures that they look at, and which of them are on.

Several workers may look at the same time: an alert begins with the row that it adds, and ends with the row that it
deletes, so a single worker leaves each notice.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, and_, delete, or_, select, update

from pipeline.policies.alerts import Alert, Measured, On
from pipeline.stores.database.ids import INSERT
from pipeline.stores.database.schema import alerts as table
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.outbound.notices import KNOWN_MS, add
from pipeline.stores.usage.query import report
from pipeline.stores.usage.report import Figures, Judged, UsageQuery
from topics.notice import NoticeRecord

GROUPS: Final = 100  # that an alert looks at: those with most of what it counts
STALE_MS: Final = 600_000  # after which an alert has ended that no worker's setting names


class Measure(NamedTuple):
    """Reads a figure from a report: its value, the number of turns or votes behind it, and the order of groups."""

    value: Callable[[Figures], float | None]
    count: Callable[[Figures], int]
    order: str = "requests"


def _judged(figures: Figures) -> Judged:
    """Return the feedback of a report that asks for one name."""
    return next(iter(figures.feedback.values()), Judged())


MEASURES: Final = {
    "cost_usd": Measure(lambda figures: figures.cost_usd, lambda figures: figures.requests, "cost_usd"),
    "error_rate": Measure(lambda of: of.errors / of.turns if of.turns else None, lambda of: of.turns, "errors"),
    "ttft_p95_ms": Measure(lambda figures: figures.ttft_ms.p95, lambda figures: figures.requests),
    "duration_p95_ms": Measure(lambda figures: figures.duration_ms.p95, lambda figures: figures.requests),
    "feedback": Measure(lambda of: _judged(of).mean, lambda of: _judged(of).count, "turns"),
}


async def measured(store: ThreadStore, alert: Alert, now: int) -> list[Measured]:
    """Return what an alert looks at, as of `now` (epoch ms). Imported turns don't count. Raises StoreError."""
    measure, by = MEASURES[alert.figure], () if alert.by is None else (alert.by,)
    where = {"origin": ("",), **{dimension: (value,) for dimension, value in alert.where}}
    judged = (alert.feedback,) if alert.feedback else ()
    start, order = now - alert.within_ms, measure.order
    query = UsageQuery(by, start=start, end=now, where=where, limit=GROUPS, order=order, feedback=judged)
    async with store.snapshot() as connection:
        found = await report(connection, query)
    each = [(row.group[by[0]] or "", row.figures) for row in found.rows if not row.other] if by else [("", found.total)]
    return [Measured(group, measure.value(figures), measure.count(figures)) for group, figures in each]


async def alerts_on(store: ThreadStore) -> list[On]:
    """Return the alerts that are on, sorted by name and group. Raises StoreError."""
    return [On(*row) for row in await store.rows(select(table).order_by(table.c.alert, table.c.group))]


async def look(store: ThreadStore, alerts: Iterable[Alert], now: int) -> None:
    """Look at all alerts at `now` (epoch ms): note which are on, with a notice of each that begins or ends.

    One that is in no setting any more ends when nobody has looked at it for STALE_MS. Raises StoreError.
    """
    known = await alerts_on(store)
    named = {alert.name: alert for alert in alerts}
    found: list[On] = []
    for alert in named.values():
        mine = {on.group: on for on in known if on.alert == alert.name}
        found += alert.now_on(await measured(store, alert, now), mine, now)
    stays = {(on.alert, on.group) for on in found}
    gone = [on for on in known if on.alert in named or on.seen < now - STALE_MS]
    await _note(store, found, [on for on in gone if (on.alert, on.group) not in stays], now)


async def _note(store: ThreadStore, found: Sequence[On], gone: Sequence[On], now: int) -> None:
    if not (found or gone):
        return
    async with store.writing() as connection:
        notices: list[NoticeRecord] = []
        new = INSERT[connection.dialect.name](table).on_conflict_do_nothing()
        looked_at = [*((on, True) for on in found), *((on, False) for on in gone)]
        looked_at.sort(key=lambda pair: (pair[0].alert, pair[0].group))  # the order in which all workers lock rows
        for on, stays in looked_at:
            if not stays:
                notices += [on.notice(now)] * (await connection.execute(delete(table).where(_same(on)))).rowcount
            elif on.since == now:
                notices += [on.notice()] * (await connection.execute(new, asdict(on))).rowcount
            else:  # nothing, if another worker has just ended it
                await connection.execute(update(table).where(_same(on)).values(seen=on.seen, data=on.data))
        await add(connection, notices, keep_until=now + KNOWN_MS)


def _same(on: On) -> ColumnElement[bool]:
    return and_(table.c.alert == on.alert, table.c.group == on.group, table.c.since == on.since)


async def forget_alerts(store: ThreadStore, tenant: str) -> None:
    """Delete what is on of a tenant, "" for usage without any."""
    mine = [_same(on) for on in await alerts_on(store) if on.tenant == tenant]
    if mine:
        await store.change(delete(table).where(or_(*mine)))
