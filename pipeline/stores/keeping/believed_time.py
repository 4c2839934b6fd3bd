"""The time by which something may expire: never that of clocks that have jumped ahead of all others."""

from typing import Final

from sqlalchemy import select, update

from pipeline.stores.database.schema import expiry_state, threads
from pipeline.stores.database.store import ThreadStore

JUMP_MS: Final = 3_600_000


async def believed_time(store: ThreadStore, now: int, passed: int = 0) -> int:
    """Return `now` (epoch ms), or the latest time that was believed if `now` is a jump ahead of it.

    It is a jump if it is over JUMP_MS more than the `passed` milliseconds ahead, unless a turn ended around `now`, too,
    by an agent's clock.
    """
    async with store.reading() as connection:
        believed: int = (await connection.execute(select(expiry_state.c.believed))).scalar_one()
        if now > believed + passed + JUMP_MS:
            around = threads.c.updated_at.between(now - JUMP_MS, now + JUMP_MS)
            if await connection.scalar(select(threads.c.id).where(around).limit(1)) is None:
                return believed
    return now


async def believe(store: ThreadStore, now: int) -> None:
    """Make `now` (epoch ms) the latest time that was believed, unless a later one is."""
    await store.change(update(expiry_state).where(expiry_state.c.believed < now).values(believed=now))
