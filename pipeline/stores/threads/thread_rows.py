"""The row of a thread, and how new turns change it. Pure.

Nearly always a turn follows all others of its thread, and the new row is computed from the old row and the turn.
Otherwise, and when a turn is replaced, the row is derived from all turns again (`statements.refresh_threads`).
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from pipeline.stores.database.expressions import MAX_INTEGER
from pipeline.stores.threads.rows import FACTS, RecordRows

ROLE_BITS: Final = 2


class ThreadRow(NamedTuple):
    """The columns of `threads` that follow from its turns; `asked` as JSON text."""

    id: int
    external_id: str | None
    title: str | None
    prompt: str | None
    status: int | None
    turns: int
    total_tokens: int
    cost_nano_usd: int | None
    model: str | None
    duration_ms: int | None
    created_at: int
    updated_at: int
    newest: int | None
    asked: str | None


def sort_key(rows: RecordRows) -> int:
    """Return the sort key of a thread's record: by time, at the same time users' turns before agents'."""
    return int(rows.turn["started_at"] << ROLE_BITS | rows.turn["role"])


def with_turns(row: ThreadRow, added: Iterable[RecordRows]) -> ThreadRow | None:
    """Return a thread's row after these new records; None if any belongs before a stored record."""
    records = sorted(added, key=attrgetter("order"))
    if row.newest is not None and sort_key(records[0]) <= row.newest:
        return None
    for record in records:
        row = _behind(row, record)
    return row


def _behind(row: ThreadRow, rows: RecordRows) -> ThreadRow:
    """Return the row after a record that is the thread's last."""
    turn, real = rows.turn, rows.turn["role"] != FACTS
    begun, ended = turn["started_at"], turn["ended_at"]
    if row.turns and not real:  # the times of a thread are those of its turns, if it has any
        begun, ended = row.created_at, row.updated_at
    elif (row.turns > 0) == real and row.newest is not None:
        begun, ended = min(row.created_at, begun), max(row.updated_at, ended)
    tokens = sum(row_of_usage["total_tokens"] or 0 for row_of_usage in rows.usage)
    costs = [row_of_usage["cost_nano_usd"] for row_of_usage in rows.usage if row_of_usage["cost_nano_usd"] is not None]
    return row._replace(
        external_id=row.external_id if turn["external_id"] is None else turn["external_id"],
        title=row.title if turn["title"] is None else turn["title"],
        prompt=turn["prompt"] if row.prompt is None else row.prompt,
        status=turn["status"] if real else row.status,
        turns=row.turns + real,
        total_tokens=min(row.total_tokens + tokens, MAX_INTEGER),
        cost_nano_usd=min((row.cost_nano_usd or 0) + sum(costs), MAX_INTEGER) if costs else row.cost_nano_usd,
        model=rows.usage[-1]["model"] if rows.usage else row.model,
        duration_ms=turn["ended_at"] - turn["started_at"] if rows.usage else row.duration_ms,
        created_at=begun,
        updated_at=ended,
        newest=sort_key(rows),
        asked=turn["asked"] if real else row.asked,
    )
