"""Conversion of rows of `usage` to the usage of a turn, and of each of its responses. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row

from pipeline.stores.database.bounded_sum import MAX_INTEGER
from pipeline.stores.threads.summaries import StepUsage, TurnUsage
from pipeline.turns.tokens import NANO


def used_by(rows: Sequence[Row[Any]]) -> TurnUsage:
    """Return the usage of one turn's rows, which are in the order of its responses."""
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
