"""Names that many rows share: each combination has a row, to which other rows refer by its integer.

All of it is within the caller's transaction. A name is deleted with the last row that uses it: a deletion keeps
nobody's name. The same applies to other rows with a digest, such as requests to models.

On Postgres a writer locks the names that it is about to use (`ids_of`). A deletion waits for the writer, and then sees
that the name is in use; a writer that comes later waits for the deletion, and adds the name again. Deletions run one at
a time: otherwise two of them might each count the other's rows as a use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Table, delete, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Insert

from pipeline.stores.database.keys import Agent, UsageNames
from pipeline.stores.database.schema import agents, usage_names
from pipeline.stores.database.sending import Call, as_bytes, of_bytes, of_rows, portions, send
from topics import json_text

INSERT: Final[dict[str, Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
DIGEST_BYTES: Final = 16
LOCK_KEY: Final = 0x74726E6D6E616D  # of Postgres' advisory lock: "trnmnam"
TABLES: Final[Mapping[type[Any], Table]] = {UsageNames: usage_names, Agent: agents}
T = TypeVar("T")
N = TypeVar("N", UsageNames, Agent)


@lru_cache(maxsize=4_096)
def digest(names: UsageNames | Agent) -> bytes:
    """Return a digest of a combination of names, which may be long, and null."""
    return hashlib.sha256(json_text.dumps(list(names)).encode()).digest()[:DIGEST_BYTES]


async def ids_of(connection: AsyncConnection, kind: type[N], wanted: Iterable[N]) -> dict[N, int]:
    """Return the integers of these names; rows that are missing are added. They stay until the transaction ends."""
    by_digest = {digest(names): names for names in wanted}
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
    while missing := [{"digest": key, **row(by_digest[key])} for key in sorted(by_digest.keys() - known.keys())]:
        known = dict((await send(connection, [of_rows(dialect, _add(table, dialect), missing), asked]))[1])
    return known


@cache
def _known(table: str, dialect: str) -> str:
    held = " ORDER BY digest FOR KEY SHARE" if dialect == "postgresql" else ""
    return f"SELECT digest, id FROM {table} WHERE digest {of_bytes(dialect)}{held}"  # noqa: S608  # our own name


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
            # A statement of its own, so that the DELETE sees the rows of writers it waited for; in the order of
            # writers.
            await connection.execute(select(table.c.id).where(*unused).order_by(table.c.digest).with_for_update())
        await connection.execute(delete(table).where(*unused))
