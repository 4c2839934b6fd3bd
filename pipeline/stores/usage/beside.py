"""The rows of `usage` that are written beside a turn, within the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.keys import UsageNames
from pipeline.stores.database.names import INSERT, ids_of
from pipeline.stores.database.schema import price_sources, turns, usage
from pipeline.stores.database.sending import Call, of_rows
from pipeline.stores.threads import statements
from pipeline.stores.threads.book import PlacedTurn
from pipeline.turns.requests import prompt_of
from topics.thread_key import ThreadKey

OF_RESPONSE: Final = tuple(  # columns that a row contains unchanged
    column.name for column in usage.c if column.name not in ("turn", "thread", "names", "price_source")
)


async def usage_calls(connection: AsyncConnection, placed: Sequence[PlacedTurn], _: object = None) -> list[Call]:
    """Return the call that adds the usage of these turns."""
    bodies = {name: body for turn in reversed(placed) for name, body in turn.rows.requests.items()}
    prompts = {name: prompt_of(body) for name, body in bodies.items()}
    of_turns = [(turn, _names(row, prompts), row) for turn in placed for row in turn.rows.usage]
    if not of_turns:
        return []
    names = await ids_of(connection, UsageNames, {name for _, name, _ in of_turns})
    sources = {row["price_source"] for _, _, row in of_turns} - {None}
    prices = await price_sources_of(connection, sources) if sources else {}
    rows = [
        {
            "turn": turn.id,
            "thread": turn.thread,
            "names": names[name],
            "price_source": prices.get(row["price_source"]),
            **{column: row[column] for column in OF_RESPONSE},
        }
        for turn, name, row in of_turns
    ]
    return [of_rows(connection.dialect.name, statements.ADD[usage], rows)]


def _names(row: Mapping[str, Any], prompts: Mapping[str, str | None]) -> UsageNames:
    prompt = prompts.get(row["request"])
    return UsageNames(row["tenant"], row["model"], row["provider"], row["agent_id"], prompt, row["origin"])


async def price_sources_of(connection: AsyncConnection, wanted: Collection[str]) -> dict[str, int]:
    """Return the integers of these sources of prices; missing ones are added."""
    query = select(price_sources.c.source, price_sources.c.id)
    known = {row.source: row.id for row in await connection.execute(query)}
    if missing := sorted(set(wanted) - known.keys()):
        new = INSERT[connection.dialect.name](price_sources).on_conflict_do_nothing()
        await connection.execute(new, [{"source": source} for source in missing])
        known = {row.source: row.id for row in await connection.execute(query)}
    return known


async def delete_usage(connection: AsyncConnection, replaced: Mapping[int, int]) -> set[int]:
    """Delete the usage of turns that are replaced; return its names."""
    ids = sorted(replaced)
    names = set(await connection.scalars(_names_of(ids)))
    await connection.execute(statements.delete_children(usage, ids))
    return names


async def names_in(connection: AsyncConnection, keys: Sequence[ThreadKey], _: str) -> set[int]:
    """Return the names in the usage of threads."""
    names = set[int]()
    for key in keys:
        mine = select(turns.c.id).where(turns.c.thread == statements.number_of(key))
        names.update(await connection.scalars(_names_of(mine)))
    return names


def _names_of(ids: Sequence[int] | Select[Any]) -> Select[Any]:
    return select(usage.c.names).where(usage.c.turn.in_(ids)).distinct()
