"""The marks of threads: erased for good, or held, so that they are neither deleted nor expire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Insert

from pipeline.stores.database.errors import HeldThread
from pipeline.stores.database.expressions import one_of
from pipeline.stores.database.keys import key_text
from pipeline.stores.database.names import INSERT
from pipeline.stores.database.schema import erased, holds
from pipeline.stores.database.sending import of_texts, portions, send
from topics.thread_key import ThreadKey


def add_erased(dialect: str) -> Insert:
    """Return an INSERT of rows {"thread_key", "erased_at"}: marks those that are not marked yet."""
    statement: Insert = INSERT[dialect](erased).on_conflict_do_nothing()
    return statement


def erased_threads(texts: Sequence[str]) -> Select[Any]:
    """Return a query of the erased ones of these thread_keys."""
    return select(erased.c.thread_key).where(one_of(erased.c.thread_key, texts))


async def erased_of(connection: AsyncConnection, threads: Iterable[ThreadKey]) -> set[ThreadKey]:
    """Return those of these threads that are marked as erased."""
    wanted = {key_text(thread): thread for thread in threads}
    [rows] = await send(connection, [of_texts(connection.dialect.name, erased_threads, sorted(wanted))])
    return {wanted[text] for (text,) in rows}


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
