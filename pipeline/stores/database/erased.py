"""The threads that were erased for good, within the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Insert

from pipeline.stores.database.keys import key_text
from pipeline.stores.database.names import INSERT
from pipeline.stores.database.one_of import one_of
from pipeline.stores.database.schema import erased
from pipeline.stores.database.sending import of_texts, send
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
    [found] = await send(connection, [of_texts(connection.dialect.name, erased_threads, sorted(wanted))])
    return {wanted[text] for (text,) in found}
