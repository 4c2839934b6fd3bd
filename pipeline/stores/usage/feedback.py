"""Feedback in reports of usage: numbers and thumbs, with the figures of the turns that they are about.

Each feedback counts once: under the turn that it names, else under the last agent's turn of its run or thread, and so
under that turn's model, agent, prompt and time. Turns are looked up from the feedback, so the cost grows with the
feedback of a name since the report's beginning: none comes before its turn, but for clocks that differ.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy import tuple_ as row_of
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.keys import id_and_tenant, turn_bytes
from pipeline.stores.database.schema import feedback, threads, turns, usage, usage_names
from pipeline.stores.database.sending import certain, send
from pipeline.stores.threads.feedback import thread_of
from pipeline.stores.threads.rows import AGENT
from pipeline.stores.threads.statements import threads_of
from pipeline.stores.usage.plan import bucket_of
from pipeline.stores.usage.report import Figures, Judged, UsageQuery, UsageRow
from pipeline.stores.usage.sums_query import Key
from pipeline.stores.usage.sums_statements import with_tags
from pipeline.turns.column_text import column_text
from topics.feedback import FeedbackRecord

BATCH_SIZE: Final = 500  # records of feedback
CLOCKS_MS: Final = 3_600_000  # by which an agent's clock, which times turns, may be ahead of the broker's

OTHER: Final = "other"
Place = Key | tuple[int | None, str]  # a row of the report; with `OTHER` the row of all other groups
Sums = dict[str, Judged]  # by the name of the feedback


async def with_feedback(
    connection: AsyncConnection,
    query: UsageQuery,
    usage_rows: Iterable[UsageRow],
    total: Figures,
    edges: Sequence[int],
    groups: Sequence[ColumnElement[Any]],
    conditions: Sequence[ColumnElement[bool]],
) -> tuple[list[UsageRow], Figures]:
    """Return rows and total with feedback; `groups`, `conditions`: columns and conditions of the query's usage."""
    await certain(connection)
    rows: dict[Place, UsageRow] = {
        (row.bucket, OTHER) if row.other else (row.bucket, tuple(row.group.values())): row for row in usage_rows
    }
    sums: defaultdict[Place, Sums] = defaultdict(lambda: dict.fromkeys(query.feedback, Judged()))
    whole = dict.fromkeys(query.feedback, Judged())
    for name in query.feedback:
        async for some in _rated(connection, name, query):
            about = await _turns(connection, some)
            places = defaultdict[int, list[Key]](list)
            for row in await connection.execute(_usage_of({*about.values()}, query.group_by, groups, conditions)):
                places[row.turn].append((bucket_of(row.at, edges), tuple(row[2:])))
            for number, record in enumerate(some):
                of_turn = places.get(about.get(number, 0), [])
                named: set[Place] = {key if key in rows else (key[0], OTHER) for key in of_turn}
                for of in (*(sums[key] for key in named), *([whole] if named else [])):
                    of[name] = Judged(of[name].count + 1, of[name].total + float(record["value"] or 0))
    filled = [replace(row, figures=replace(row.figures, feedback=sums[key])) for key, row in rows.items()]
    return filled, replace(total, feedback=whole)


async def _rated(connection: AsyncConnection, name: str, query: UsageQuery) -> AsyncIterator[list[FeedbackRecord]]:
    """Yield the feedback of a name that has a number, some at a time; feedback with text only is left out."""
    order = (feedback.c.at, feedback.c.thread_id, feedback.c.tenant, feedback.c.id)
    conditions = [feedback.c.name == column_text(name), feedback.c.number.is_not(None)]
    if tenants := query.where.get("tenant"):
        conditions.append(feedback.c.tenant.in_([column_text(tenant) or "" for tenant in tenants]))
    after: Sequence[Any] = (0 if query.start is None else query.start - CLOCKS_MS, "", "", "")
    while True:
        rated = select(*order, feedback.c.record).where(*conditions, row_of(*order) > after).order_by(*order)
        rows = (await connection.execute(rated.limit(BATCH_SIZE))).all()
        if not rows:
            return
        yield [row.record for row in rows]
        after = rows[-1][:-1]


def _usage_of(
    ids: Collection[int],
    group_by: Collection[str],
    groups: Sequence[ColumnElement[Any]],
    conditions: Sequence[ColumnElement[bool]],
) -> Select[Any]:
    """Return a query of the turns that are part of the report: the turn, its time, its groups."""
    source = with_tags(usage.join(usage_names, usage.c.names == usage_names.c.id), group_by)
    source = source.join(threads, usage.c.thread == threads.c.id)
    rows = select(usage.c.turn, usage.c.at, *groups).select_from(source)
    return rows.where(usage.c.turn.in_(sorted(ids)), usage.c.turns == 1, *conditions)


async def _turns(connection: AsyncConnection, records: Sequence[FeedbackRecord]) -> dict[int, int]:
    """Return the turns under which feedback counts, by its index in `records`; some feedback has none."""
    keys = {thread_of(record) for record in records}
    [rows] = await send(connection, [threads_of(connection.dialect.name, keys)])
    names = {row[2]: (row[0], row[1]) for row in rows}
    query = select(turns.c.id, turns.c.thread, turns.c.turn_id, turns.c.run_id)
    query = query.where(turns.c.thread.in_(sorted(names)), turns.c.role == AGENT)
    known: dict[tuple[Any, ...], int] = {}
    for row in sorted(await connection.execute(query), key=lambda row: row.id):
        thread = names[row.thread]
        known |= dict.fromkeys(((*thread, bytes(row.turn_id)), (*thread, row.run_id), thread), row.id)
    places = {}
    for number, rated in enumerate(records):
        thread, turn_id, run_id = id_and_tenant(thread_of(rated)), rated.get("turn_id"), rated.get("run_id")
        of = [turn_bytes(turn_id)] if turn_id is not None else [column_text(run_id)] if run_id is not None else []
        if (*thread, *of) in known:
            places[number] = known[*thread, *of]
    return places
