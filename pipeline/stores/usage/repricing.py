"""Repricing: computes costs of a period again, from the stored turns and today's prices, on request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, select, update
from sqlalchemy import tuple_ as row_of
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.policies.prices import Prices
from pipeline.stores.costs.rows import usage_rows
from pipeline.stores.database.keys import thread_of
from pipeline.stores.database.schema import price_sources, threads, usage
from pipeline.stores.database.sending import certain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import statements
from pipeline.stores.threads.rows import record_of
from pipeline.stores.threads.write import lock
from pipeline.stores.usage.beside import price_sources_of

BATCH_SIZE: Final = 200  # rows of a transaction
PLACE: Final = (usage.c.at, usage.c.turn, usage.c.position)  # the order in which rows are read, by the index of `at`
PRICED: Final = ("cost_nano_usd", "price_source", "estimated_tokens", "estimated_nano_usd")


class Repriced(NamedTuple):
    """A row of usage whose cost or estimate changes: both in 10⁻⁹ US dollars, with the names of their prices."""

    model: str | None
    before: int | None
    source_before: str | None
    after: int | None
    source_after: str | None


async def reprice(store: ThreadStore, since: int, until: int, *, dry_run: bool) -> AsyncIterator[Repriced]:
    """Price the usage from `since` on and before `until` (epoch ms) again, and yield what changes.

    Costs that a stream reported stay. `dry_run` changes nothing. Sums follow; those of expired turns stay.
    """
    last = since, -(2**63), 0
    while True:
        mine = select(*PLACE).where(usage.c.at >= last[0], usage.c.at < until, row_of(*PLACE) > row_of(*last))
        async with store.writing() as connection:
            await certain(connection)
            rows = (await connection.execute(mine.order_by(*PLACE).limit(BATCH_SIZE))).all()
            places = {(row.turn, row.position) for row in rows}
            changed = await _reprice(connection, places, store.prices, (since, until), dry_run=dry_run)
        for row in changed:
            yield row
        if len(rows) < BATCH_SIZE:
            return
        last = rows[-1].at, rows[-1].turn, rows[-1].position


async def _reprice(
    connection: AsyncConnection,
    places: Collection[tuple[int, int]],
    prices: Prices,
    within: tuple[int, int],
    *,
    dry_run: bool,
) -> list[Repriced]:
    """Price the rows at these places, as (turn, position), again, if their time is still within these (epoch ms)."""
    turns = sorted({turn for turn, _ in places})
    of = select(*statements.NAME).where(threads.c.id.in_(select(usage.c.thread).where(usage.c.turn.in_(turns))))
    if not dry_run:  # while no writer replaces a turn
        await lock(connection, {thread_of(row) for row in await connection.execute(of)})
    records = await connection.execute(statements.records_by_id(turns))
    fresh = {(id_, row["position"]): row for id_, text in records for row in usage_rows(record_of(text), prices)}
    query = select(usage, price_sources.c.source).outerjoin(price_sources, usage.c.price_source == price_sources.c.id)
    stored = (await connection.execute(query.where(usage.c.turn.in_(turns)))).mappings().all()
    known = {(row["turn"], row["position"]): {**row, "price_source": row["source"]} for row in stored}
    changes = {
        position: fresh[position]
        for position, row in known.items()
        if position in places
        and position in fresh
        and within[0] <= row["at"] < within[1]
        and any(row[name] != fresh[position][name] for name in PRICED)
    }
    repriced = [
        Repriced(row["model"], _cost(known[position]), known[position]["source"], _cost(row), row["price_source"])
        for position, row in changes.items()
    ]
    if dry_run or not changes:
        return repriced
    sources = await price_sources_of(connection, {row["price_source"] for row in changes.values()} - {None})
    put = update(usage).where(usage.c.turn == bindparam("of_turn"), usage.c.position == bindparam("at_position"))
    values = [
        {name: row[name] for name in PRICED}
        | {"price_source": sources.get(row["price_source"]), "of_turn": turn, "at_position": position}
        for (turn, position), row in changes.items()
    ]
    await connection.execute(put.values({name: bindparam(name) for name in PRICED}), values)
    await connection.execute(statements.refresh_threads(sorted({known[change]["thread"] for change in changes})))
    return repriced


def _cost(row: Any) -> int | None:
    cost: int | None = row["cost_nano_usd"] if row["cost_nano_usd"] is not None else row["estimated_nano_usd"]
    return cost
