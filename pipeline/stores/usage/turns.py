"""The usage of the turns of a thread, and of each of their responses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Row, Select, select

from pipeline.stores.database.expressions import MAX_INTEGER
from pipeline.stores.database.keys import turn_text
from pipeline.stores.database.schema import price_sources, turns, usage, usage_names
from pipeline.stores.database.sending import certain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.statements import number_of
from pipeline.stores.threads.summaries import StepUsage, TurnUsage
from pipeline.turns.tokens import NANO
from topics.thread_key import ThreadKey


async def turn_usage(store: ThreadStore, key: ThreadKey) -> dict[str, TurnUsage]:
    """Return the usage of each turn of a thread that has any, by turn_id."""
    async with store.reading() as connection:
        await certain(connection)
        rows = (await connection.execute(usage_rows(key))).all()

    def by_turn() -> dict[str, TurnUsage]:
        groups = groupby(rows, lambda row: bytes(row.turn_id))
        return {turn_text(turn_id): used_by(list(some)) for turn_id, some in groups}

    return await asyncio.to_thread(by_turn)


def usage_rows(key: ThreadKey) -> Select[Any]:
    """Return a query of a thread's rows of `usage` with turn_id, model and price, in their order."""
    query = select(turns.c.turn_id, usage, usage_names.c.model, price_sources.c.source)
    query = query.join(turns, usage.c.turn == turns.c.id)
    query = query.outerjoin(price_sources, usage.c.price_source == price_sources.c.id)
    query = query.join(usage_names, usage.c.names == usage_names.c.id).where(turns.c.thread == number_of(key))
    return query.order_by(usage.c.turn, usage.c.position)


def used_by(rows: Sequence[Row[Any]]) -> TurnUsage:
    """Return the usage of a turn's rows, which are in the order of its responses."""
    costs = [row.cost_nano_usd for row in rows if row.cost_nano_usd is not None]
    guessed = [row.estimated_nano_usd for row in rows if row.estimated_nano_usd is not None]
    return TurnUsage(
        input_tokens=_sum(row.input_tokens for row in rows),
        output_tokens=_sum(row.output_tokens for row in rows),
        total_tokens=_sum(row.total_tokens for row in rows),
        cost_usd=_dollars(_sum(costs) if costs else None),
        estimated_tokens=_sum(row.estimated_tokens for row in rows),
        estimated_cost_usd=_dollars(_sum(guessed) if guessed else None),
        prices=tuple(sorted({row.source for row in rows if row.source is not None})),
        ttft_ms=next((row.ttft_ms for row in rows if row.position == 0), None),
        steps=tuple(_step(row) for row in rows if row.requests) if len(rows) > 1 else (),
    )


def _step(row: Row[Any]) -> StepUsage:
    return StepUsage(
        model=row.model,
        input_tokens=row.input_tokens or 0,
        output_tokens=row.output_tokens or 0,
        cost_usd=_dollars(row.cost_nano_usd),
        ttft_ms=row.ttft_ms,
        duration_ms=row.duration_ms,
    )


def _sum(values: Any) -> int:
    return min(sum(value or 0 for value in values), MAX_INTEGER)


def _dollars(nano: int | None) -> float | None:
    return None if nano is None else nano / NANO
