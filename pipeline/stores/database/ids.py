"""The integers by which rows refer to others: those of names that many rows share, and the ids of turns.

Each combination of names has a row, to which other rows refer by its integer. All of it is within the caller's
transaction. A name is deleted with the last row that uses it: a deletion keeps nobody's name. The same applies to other
rows with a digest, such as requests to models.

On Postgres a writer locks the names that it is about to use (`ids_of`). A deletion waits for the writer, and then sees
that the name is in use; a writer that comes later waits for the deletion, and adds the name again. Deletions run one at
a time: otherwise two of them might each count the other's rows as a use.

The id of a turn is its time in epoch ms, followed by a number that rises with each turn. So ids sort by time, and a
page of the newest turns is a range of them. The number comes from a counter of the database that never goes back, so a
deleted turn's id is not given again before 2 million further turns, and then only to a turn of the same ms. Nothing has
it by then: all rows that name a turn are deleted in one transaction with it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Table, delete, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Insert

from pipeline.stores.database.keys import Agent, Label, UsageNames
from pipeline.stores.database.schema import agents, usage_names
from pipeline.stores.database.sending import Call, as_bytes, as_list, of_bytes, of_rows, portions, send
from topics import json_text

INSERT: Final[dict[str, Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
DIGEST_BYTES: Final = 16
LOCK_KEY: Final = 0x74726E6D6E616D  # of Postgres' advisory lock: "trnmnam"
TABLES: Final[Mapping[type[Any], Table]] = {UsageNames: usage_names, Agent: agents}
T = TypeVar("T")
N = TypeVar("N", UsageNames, Agent)


def digest(names: UsageNames | Agent | Label) -> bytes:
    """Return a digest of a combination of names, which may be long, and null."""
    return hashlib.sha256(json_text.dumps(list(names)).encode()).digest()[:DIGEST_BYTES]


async def ids_of(connection: AsyncConnection, kind: type[N], wanted: Iterable[N]) -> dict[N, int]:
    """Return the integers of these names; rows that are missing are added. They stay until the transaction ends."""
    by_digest = {digest(names): names for names in set(wanted)}
    known = await numbers_of(connection, TABLES[kind], by_digest, lambda names: names._asdict())
    return {names: known[key] for key, names in by_digest.items()}


async def numbers_of(
    connection: AsyncConnection, table: Table, by_digest: Mapping[bytes, T], row: Callable[[T], dict[str, Any]]
) -> dict[bytes, int]:
    """Return the integers of rows by their digests; missing rows are added, with the columns that `row` returns."""
    if not by_digest:
        return {}
    dialect = connection.dialect.name
    asked = Call(_known(table.name, dialect), (as_bytes(dialect, list(by_digest)),))
    known = dict((await send(connection, [asked]))[0])
    # In the order of digests, so that two writers who add the same names can't deadlock.
    while missing := sorted(by_digest.keys() - known.keys()):
        rows = [{"digest": key, **row(by_digest[key])} for key in missing]
        known = dict((await send(connection, [of_rows(dialect, _add(table, dialect), rows), asked]))[1])
    return known


@cache
def _known(table: str, dialect: str) -> str:
    held = " ORDER BY digest FOR KEY SHARE" if dialect == "postgresql" else ""
    return f"SELECT digest, id FROM {table} WHERE digest {of_bytes(dialect)}{held}"  # noqa: S608  # our name


@cache
def _add(table: Table, dialect: str) -> Insert:
    statement: Insert = INSERT[dialect](table).on_conflict_do_nothing(index_elements=[table.c.digest])
    return statement


async def forget_unused(
    connection: AsyncConnection, table: Table, ids: Iterable[int], used: Iterable[ColumnElement[bool]]
) -> None:
    """Delete those of these rows that no other row uses any more; `used`: the conditions of such rows."""
    wanted = sorted(set(ids))
    postgres = connection.dialect.name == "postgresql"
    if wanted and postgres:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
    for some in portions(wanted):
        unused = [table.c.id.in_(some), *(~condition for condition in used)]
        if postgres:
            # A separate statement, so that the DELETE sees the rows of writers it waited for; in the order of
            # writers.
            await connection.execute(select(table.c.id).where(*unused).order_by(table.c.digest).with_for_update())
        await connection.execute(delete(table).where(*unused))


NUMBER_BITS: Final = 21  # the lower bits of an id, below its time
LATEST: Final = 2**42 - 2  # epoch ms
NUMBERS: Final = 1 << NUMBER_BITS

COUNTER: Final = "turn_numbers"  # a sequence on Postgres, a table with a single row on SQLite
_NEXT: Final = {
    "postgresql": f"SELECT nextval('{COUNTER}') FROM generate_series(1, $1::int)",  # noqa: S608  # our name
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
