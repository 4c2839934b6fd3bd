"""The threads that were erased for good, within the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.keys import key_text
from pipeline.stores.database.sending import of_texts, send
from pipeline.stores.threads import statements
from topics.thread_key import ThreadKey


async def erased_of(connection: AsyncConnection, threads: Iterable[ThreadKey]) -> set[ThreadKey]:
    """Return those of these threads that are marked as erased."""
    wanted = {key_text(thread): thread for thread in threads}
    [found] = await send(connection, [of_texts(connection.dialect.name, statements.erased_threads, sorted(wanted))])
    return {wanted[text] for (text,) in found}
