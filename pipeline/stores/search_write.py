"""The words of turns, within the caller's transaction: with the turns that are written, and in steps of those that an
older version has written, or a store role with TURNMILL_SEARCH=off.

The column `turns.searched` says of which version of a turn the words are: the beginning of its digest. An older version
knows nothing of it, so what it writes is not found until a step has come to it; what it deletes takes its words along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import and_, bindparam, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.engine import SEARCH
from pipeline.stores.rows import RecordRows, Row
from pipeline.stores.schema import UNSEARCHED, said, turns
from pipeline.stores.search_rows import DIGITS, search_row, tsvector
from pipeline.stores.sending import Call, as_list, send
from pipeline.turns.spoken_text import KINDS, Kind
from topics import json_text

CHOICES: Final[dict[str, tuple[Kind, ...]]] = {"on": KINDS[:1], "all": KINDS, "off": ()}

_KEY: Final = turns.c.thread_key.label("thread_key")
UNSEARCHED_TURNS: Final = (
    select(turns.c.turn_id, _KEY, turns.c.tenant, turns.c.agent_id, turns.c.role)
    .add_columns(turns.c.started_at, turns.c.digest, turns.c.document)
    .where(UNSEARCHED)
    .order_by(turns.c.started_at.desc())
    .with_for_update(skip_locked=True)
)
SEARCHED_TURNS: Final = (
    select(turns.c.turn_id, _KEY).where(turns.c.said.is_not(None)).order_by(turns.c.said)
).with_for_update(skip_locked=True)
_MINE: Final = and_(turns.c.turn_id == bindparam("of_turn"), turns.c.thread_key == bindparam("of_thread"))
_DELETE: Final = delete(said).where(said.c.id == select(turns.c.said).where(_MINE).scalar_subquery())
_TAKEN: Final = {
    "postgresql": "SELECT id FROM said WHERE id = ANY($1::bigint[])",
    "sqlite": "SELECT id FROM said WHERE id IN (SELECT value FROM json_each(?))",
}
_ADD: Final = (  # one statement for all rows: half the work of one for each
    "INSERT INTO said (id, tenant, words) SELECT id, tenant, CAST(words AS tsvector) "
    "FROM unnest($1::bigint[], $2::text[], $3::text[]) AS s (id, tenant, words)"
)
_ADD_SQLITE: Final = "INSERT INTO said (id, tenant, words) VALUES (?, ?, ?)"
# In the order of ids: at one that is less than that before, FTS5 begins a new part of its index.
_INDEX_SQLITE: Final = (
    "INSERT INTO said_words(rowid, words) "
    "SELECT id, words FROM said WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
)
_MARK: Final = update(turns).where(_MINE).values(searched=bindparam("mark"), said=bindparam("place"))


def kinds_of(connection: AsyncConnection) -> tuple[Kind, ...]:
    """What the words of a turn are taken from."""
    return CHOICES[connection.sync_connection.get_execution_options().get(SEARCH, "on")]  # type: ignore[union-attr]  # open


async def with_places(
    connection: AsyncConnection, replaced: Sequence[RecordRows], changed: Sequence[RecordRows]
) -> tuple[list[Row], list[Row]]:
    """-> the rows of `turns` with what they say of their words, and the words, for `adding` when those rows are there.
    `replaced`: those of the turns that are stored already; their words go.
    """
    await _forget(connection, [rows.key for rows in replaced])
    return await prepared(connection, [rows.turn for rows in changed], kinds_of(connection))


def adding(dialect: str, words: Sequence[Row]) -> list[Call]:
    """-> the calls that write rows of `said`; they are made behind the rows of `turns`. On SQLite no trigger adds new
    rows to the index: FTS5 writes what it has gathered at each row of a trigger, which costs three times as much as all
    rows of a transaction at once.
    """
    if not words:
        return []
    ids, tenants, found = ([row[name] for row in words] for name in ("id", "tenant", "words"))
    if dialect == "postgresql":
        return [Call(_ADD, (ids, tenants, [tsvector(some) for some in found]))]
    rows = list(zip(ids, tenants, map(" ".join, found), strict=True))
    return [Call(_ADD_SQLITE, rows, many=True), Call(_INDEX_SQLITE, (json_text.dumps(ids),))]


async def add(connection: AsyncConnection, words: Sequence[Row]) -> None:
    """Write rows of `said`."""
    await send(connection, adding(connection.dialect.name, words))


async def index_some(connection: AsyncConnection, most: int) -> int:
    """Write the words of some turns that miss them, the newest first; or delete those of some, where no search is
    wanted -> of how many turns.
    """
    kinds = kinds_of(connection)
    query = (UNSEARCHED_TURNS if kinds else SEARCHED_TURNS).limit(most)
    found = [row._asdict() for row in await connection.execute(query)]
    if found:
        await _forget(connection, [(row["thread_key"], row["turn_id"]) for row in found])
        rows, words = await prepared(connection, found, kinds)
        await connection.execute(_MARK, [_of(row) | {"mark": row["searched"], "place": row["said"]} for row in rows])
        await add(connection, words)
    return len(found)


async def _forget(connection: AsyncConnection, keys: Iterable[tuple[str, str]]) -> None:
    if gone := [{"of_thread": text, "of_turn": turn_id} for text, turn_id in keys]:
        await connection.execute(_DELETE, gone)


async def prepared(
    connection: AsyncConnection, some: Sequence[Row], kinds: Sequence[Kind]
) -> tuple[list[Row], list[Row]]:
    """Rows of `turns` -> the same with what they say of their words, and rows of `said`."""
    words = [search_row(turn, kinds) if kinds else None for turn in some]
    added = [row for row in words if row is not None]
    await _place(connection, added)
    marked = [
        turn | {"searched": turn["digest"][:DIGITS] if kinds else None, "said": None if row is None else row["id"]}
        for turn, row in zip(some, words, strict=True)
    ]
    return marked, added


async def _place(connection: AsyncConnection, rows: Sequence[Row]) -> None:
    """Give each row an id that no other has. On Postgres two writers may yet come to the same: the second one fails,
    and tries again.
    """
    mine: set[int] = set()
    moving, leap = rows, 1
    while moving:
        ids = [row["id"] for row in moving]
        dialect = connection.dialect.name
        [found] = await send(connection, [Call(_TAKEN[dialect], (as_list(dialect, ids),))])
        taken = {one for (one,) in found}
        still = []
        for row in moving:
            if row["id"] in taken or row["id"] in mine:
                row["id"] += leap  # wider ones each time: they get over any crowd
                still.append(row)
            else:
                mine.add(row["id"])
        moving, leap = still, 2 * leap


def _of(row: Row) -> Row:
    return {"of_turn": row["turn_id"], "of_thread": row["thread_key"]}
