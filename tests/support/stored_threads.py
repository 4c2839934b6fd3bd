"""All threads of a store, for tests of what is left in it."""

from collections.abc import AsyncIterator

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import _pages
from topics.thread_key import ThreadKey


async def thread_keys(store: ThreadStore) -> AsyncIterator[ThreadKey]:
    """Yield every thread, in the order of ids."""
    async for some in _pages(store):
        for key in some.values():
            yield key
