"""Holds of a store's threads: setting, lifting and listing them."""

from collections.abc import Iterable

from sqlalchemy import delete, select

from pipeline.stores.database.held_and_erased import erased_of, held_of
from pipeline.stores.database.ids import INSERT
from pipeline.stores.database.keys import key_text
from pipeline.stores.database.schema import holds
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import statements
from pipeline.stores.threads.write import lock
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms
from turnmill.errors import CallerError


async def hold_thread(store: ThreadStore, key: ThreadKey) -> bool:
    """Hold a thread; return True if it was not held. Raises CallerError for a thread that is being or was deleted."""
    async with store.writing() as connection:
        locked = await lock(connection, [key])  # waits for a deletion that is about to mark it
        gone = await erased_of(connection, [key])
        held = await held_of(connection, [key])
        await connection.execute(statements.delete_empty([locked[key].id]))
        if gone:
            raise CallerError(f"thread {key.text} can't be held: it was deleted")
        if not held:
            row = {"thread_key": key_text(key), "name": list(key), "held_at": now_ms()}
            await connection.execute(INSERT[connection.dialect.name](holds), [row])
        return not held


async def release_thread(store: ThreadStore, key: ThreadKey) -> bool:
    """Lift the hold of a thread; return whether it was held."""
    return await store.change(delete(holds).where(holds.c.thread_key == key_text(key))) > 0


async def held_threads(store: ThreadStore, keys: Iterable[ThreadKey] | None = None) -> set[ThreadKey]:
    """Return the held ones of these threads; without `keys`, all that are held."""
    async with store.reading() as connection:
        if keys is not None:
            return await held_of(connection, keys)
        return {ThreadKey.of(*name) for name in await connection.scalars(select(holds.c.name))}
