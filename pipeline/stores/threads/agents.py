"""Agents and links: rows that are written with a turn, within the caller's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from sqlalchemy import delete, exists
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.ids import forget_unused, ids_of
from pipeline.stores.database.keys import Agent
from pipeline.stores.database.schema import agents, links, thread_agents
from pipeline.stores.database.sending import Call, of_rows, send
from pipeline.stores.threads import lookups, statements
from pipeline.stores.threads.rows import agents_of, record_of
from pipeline.stores.threads.table_that_follows import PlacedTurn
from topics.thread_key import ThreadKey

SPEAKS: Final = exists().where(thread_agents.c.agent == agents.c.id)

Spoken = Counter[tuple[Agent, int]]  # in how many turns an agent speaks in a thread


async def link_calls(connection: AsyncConnection, turns: Sequence[PlacedTurn], _: object = None) -> list[Call]:
    """Return the call that adds the links of these turns."""
    rows = [{"turn": turn.id, **link} for turn in turns for link in turn.rows.links]
    return [of_rows(connection.dialect.name, statements.ADD[links], rows)] if rows else []


async def delete_links(connection: AsyncConnection, turns: Mapping[int, int]) -> None:
    """Delete the links of turns that are replaced."""
    await connection.execute(statements.delete_children(links, sorted(turns)))


async def agent_calls(
    connection: AsyncConnection, turns: Sequence[PlacedTurn], fewer: Spoken | None = None
) -> list[Call]:
    """Return the calls that count in how many turns agents speak; `fewer`: those of the records that are replaced."""
    change = Spoken()
    for turn in turns:
        for agent in turn.rows.agents:
            change[agent, turn.thread] += 1
    change.subtract(fewer or {})
    if fewer is not None:
        fewer.clear()  # the agents that speak no more are forgotten here
    changed = {key: count for key, count in change.items() if count}
    if not changed:
        return []
    ids = await ids_of(connection, Agent, map(itemgetter(0), changed))
    dialect = connection.dialect.name
    counts = {(ids[agent], thread): count for (agent, thread), count in changed.items()}
    call = lookups.add_agents(dialect, counts)
    gone = sorted({thread for (_, thread), count in counts.items() if count < 0})
    if not gone:
        return [call]
    await send(connection, [call])
    silent = delete(thread_agents).where(thread_agents.c.thread.in_(gone), thread_agents.c.turns <= 0)
    await forget_agents(connection, await connection.scalars(silent.returning(thread_agents.c.agent)))
    return []


async def agents_before(connection: AsyncConnection, turns: Mapping[int, int]) -> Spoken:
    """Return how often each agent speaks in turns that are replaced."""
    spoken = Spoken()
    for id_, record in await connection.execute(statements.records_by_id(sorted(turns))):
        spoken.update((agent, turns[id_]) for agent in agents_of(record_of(record)))
    return spoken


async def delete_agents(connection: AsyncConnection, keys: Sequence[ThreadKey], _: str) -> set[int]:
    """Delete the agents of threads; return them: others may be theirs, too."""
    gone = set[int]()
    for key in keys:
        of_thread = delete(thread_agents).where(thread_agents.c.thread == statements.number_of(key))
        gone.update(await connection.scalars(of_thread.returning(thread_agents.c.agent)))
    return gone


async def forget_agents(connection: AsyncConnection, ids: Iterable[int]) -> None:
    """Delete those of these agents that no longer speak in any thread."""
    await forget_unused(connection, agents, ids, (SPEAKS,))
