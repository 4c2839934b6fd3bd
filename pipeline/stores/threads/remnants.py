"""The remnants of expired threads in the content store and in the archive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import case, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.keys import key_text
from pipeline.stores.database.names import INSERT
from pipeline.stores.database.schema import expired
from pipeline.stores.database.store import ThreadStore
from topics.thread_key import ThreadKey

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
    for expired_remnant in expired_remnants:
        row = {
            "thread_key": key_text(expired_remnant.key),
            "name": list(expired_remnant.key),
            "before": expired_remnant.before,
        }
        row |= {"first": expired_remnant.first, "last": expired_remnant.last, "due": expired_remnant.due}
        new = INSERT[connection.dialect.name](expired).values(row)

        def least(name: str, new: Any = new) -> Any:
            return case((new.excluded[name] < expired.c[name], new.excluded[name]), else_=expired.c[name])

        def most(name: str, new: Any = new) -> Any:
            return case((new.excluded[name] > expired.c[name], new.excluded[name]), else_=expired.c[name])

        values = {"before": most("before"), "first": least("first"), "last": most("last"), "due": least("due")}
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
