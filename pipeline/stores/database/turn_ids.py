"""The ids of turns inside the database: the turn's time in epoch ms, followed by a number that rises with each turn.

So ids sort by time, and a page of the newest turns is a range of them. The number comes from a counter of the database
that never goes back, so a deleted turn's id is not given again before 2 million further turns, and then only to a turn
of the same ms. Nothing has it by then: all rows that name a turn are deleted in one transaction with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.sending import Call, as_list, send

NUMBER_BITS: Final = 21  # the lower bits of an id, below its time
LATEST: Final = 2**42 - 2  # epoch ms
NUMBERS: Final = 1 << NUMBER_BITS

COUNTER: Final = "turn_numbers"  # a sequence on Postgres, a table with a single row on SQLite
_NEXT: Final = {
    "postgresql": f"SELECT nextval('{COUNTER}') FROM generate_series(1, $1::int)",  # noqa: S608  # our own name
    "sqlite": f"UPDATE {COUNTER} SET last = last + ? RETURNING last",  # noqa: S608  # our own name
}
_TAKEN: Final = {
    "postgresql": "SELECT id FROM turns WHERE id = ANY($1::bigint[])",
    "sqlite": "SELECT id FROM turns WHERE id IN (SELECT value FROM json_each(?))",
}


def first_id(at: int) -> int:
    """Return the smallest id of a time in epoch ms."""
    return min(max(at, 0), LATEST + 1) << NUMBER_BITS


async def new_ids(connection: AsyncConnection, times: Sequence[int]) -> list[int]:
    """Return a free id for each of these times (epoch ms); numbers repeat after 2 million turns."""
    if not times:
        return []
    dialect = connection.dialect.name
    rows = (await send(connection, [Call(_NEXT[dialect], (len(times),))]))[0]
    last = rows[-1][0]
    numbers = [row[0] for row in rows] if len(rows) > 1 else range(last - len(times) + 1, last + 1)
    ids = [first_id(min(at, LATEST)) | number % NUMBERS for at, number in zip(times, numbers, strict=True)]
    used, leap = set[int](), 1
    wanted = list(range(len(ids)))
    while wanted:
        asked = Call(_TAKEN[dialect], (as_list(dialect, [ids[index] for index in wanted]),))
        taken = {id_ for (id_,) in (await send(connection, [asked]))[0]}
        again = []
        for index in wanted:
            if ids[index] in taken or ids[index] in used:
                ids[index] += leap  # wider each time, so that it gets past any run of used ids
                again.append(index)
            else:
                used.add(ids[index])
        wanted, leap = again, 2 * leap
    return ids
