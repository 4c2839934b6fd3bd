"""The marks of threads: erased for good; held, so neither deleted nor expired; expired, but for remnants."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import case, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Insert

from pipeline.stores.database.errors import HeldThread
from pipeline.stores.database.ids import INSERT
from pipeline.stores.database.keys import key_text
from pipeline.stores.database.schema import erased, expired, holds
from pipeline.stores.database.sending import Call, as_list, portions, send
from pipeline.stores.database.store import ThreadStore
from topics.thread_key import ThreadKey

# The same statement for any number of threads, which it looks up by the index.
_ERASED: Final = {
    "postgresql": "SELECT thread_key FROM erased WHERE thread_key = ANY ($1::text[])",
    "sqlite": "SELECT thread_key FROM erased WHERE thread_key IN (SELECT value FROM json_each(?))",
}


def add_erased(dialect: str) -> Insert:
    """Return an INSERT of rows {"thread_key", "erased_at"}: marks those that are not marked yet."""
    statement: Insert = INSERT[dialect](erased).on_conflict_do_nothing()
    return statement


async def erased_of(connection: AsyncConnection, threads: Iterable[ThreadKey]) -> set[ThreadKey]:
    """Return those of these threads that are marked as erased."""
    wanted = {key_text(thread): thread for thread in threads}
    dialect = connection.dialect.name
    [rows] = await send(connection, [Call(_ERASED[dialect], (as_list(dialect, sorted(wanted)),))])
    return {wanted[text] for (text,) in rows} if rows else set()


async def held_of(connection: AsyncConnection, threads: Iterable[ThreadKey]) -> set[ThreadKey]:
    """Return the held ones of these threads."""
    wanted = {key_text(thread): thread for thread in threads}
    held: set[ThreadKey] = set()
    for some in portions(sorted(wanted)):
        texts = await connection.scalars(select(holds.c.thread_key).where(holds.c.thread_key.in_(some)))
        held.update(wanted[text] for text in texts)
    return held


def held_thread(key: ThreadKey) -> HeldThread:
    """Return the error of an attempt to delete a held thread."""
    return HeldThread(
        f"thread {key.text} is held, and is not deleted until it is released: "
        f"`turnmill threads hold --release {key.thread_id}`, or DELETE /v1/threads/{key.thread_id}/hold"
    )


REMNANTS_BATCH: Final = 1000


class Remnant(NamedTuple):
    """An expired thread: rows up to `before` have expired; its records' times; when it is `due` again. Epoch ms."""

    key: ThreadKey
    before: int
    first: int
    last: int
    due: int


async def remember(connection: AsyncConnection, expired_remnants: Iterable[Remnant]) -> None:
    """Store these; if a thread is stored already, its time range is extended."""
    for key, *times in expired_remnants:
        row = {"thread_key": key_text(key), "name": list(key), **dict(zip(Remnant._fields[1:], times, strict=True))}
        new = INSERT[connection.dialect.name](expired).values(row)
        given, values = new.excluded, {}
        for name, known in ((name, expired.c[name]) for name in Remnant._fields[1:]):
            replaces = given[name] > known if name in ("before", "last") else given[name] < known
            values[name] = case((replaces, given[name]), else_=known)
        await connection.execute(new.on_conflict_do_update(index_elements=[expired.c.thread_key], set_=values))


async def due_remnants(store: ThreadStore, now: int) -> list[Remnant]:
    """Return the due expired threads of which large values or archived rows may remain, at most REMNANTS_BATCH."""
    query = select(expired).where(expired.c.due <= now).order_by(expired.c.due, expired.c.thread_key)
    rows = await store.rows(query.limit(REMNANTS_BATCH))
    return [Remnant(ThreadKey.of(*row.name), row.before, row.first, row.last, row.due) for row in rows]


async def looked_at(store: ThreadStore, left: Sequence[Remnant], clean: Sequence[Remnant]) -> None:
    """Set when `left` are due for the next check; delete `clean`, unless something was added meanwhile."""
    async with store.writing() as connection:
        for remnant in left:
            mine = expired.c.thread_key == key_text(remnant.key)
            await connection.execute(update(expired).where(mine).values(due=remnant.due))
        for remnant in clean:
            same = expired.c.before == remnant.before, expired.c.due == remnant.due
            await connection.execute(delete(expired).where(expired.c.thread_key == key_text(remnant.key), *same))
