"""The held threads, within the caller's transaction: they are neither deleted nor do they expire."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.errors import HeldThread
from pipeline.stores.database.keys import key_text
from pipeline.stores.database.schema import holds
from pipeline.stores.database.sending import portions
from topics.thread_key import ThreadKey


async def held_of(connection: AsyncConnection, threads: Iterable[ThreadKey]) -> set[ThreadKey]:
    """Return the held ones of these threads."""
    wanted = {key_text(thread): thread for thread in threads}
    found: set[ThreadKey] = set()
    for some in portions(sorted(wanted)):
        texts = await connection.scalars(select(holds.c.thread_key).where(holds.c.thread_key.in_(some)))
        found.update(wanted[text] for text in texts)
    return found


def held_thread(key: ThreadKey) -> HeldThread:
    """Return the error of an attempt to delete a held thread."""
    return HeldThread(
        f"thread {key.text} is held, and is not deleted until it is released: "
        f"`turnmill threads hold --release {key.thread_id}`, or DELETE /v1/threads/{key.thread_id}/hold"
    )
