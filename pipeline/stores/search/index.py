"""The index of words in a store, and searching it."""

from __future__ import annotations

from typing import Final

from pipeline.stores.database.connections import Connected, to_the_end
from pipeline.stores.search import hits as search
from pipeline.stores.search import write as search_write
from pipeline.stores.search.hits import SearchPage, SearchQuery

INDEXED_BATCH: Final = 100  # turns whose words are written in one transaction


class Searched(Connected):
    """A store with the words of its turns (`pipeline.stores.search.write`). Every method raises StoreError."""

    async def search(self, query: SearchQuery) -> SearchPage:
        """Return turns that match. Raises CallerError for a malformed cursor, and if the search takes too long."""
        async with self._reading() as connection:
            return await search.search(connection, query)

    async def index_some(self, most: int = INDEXED_BATCH) -> int:
        """Index the words of some turns that lack them, or delete some if search is off; return how many turns.

        Several processes may call it.
        """

        async def transaction() -> int:
            async with self._writing() as connection:
                return await search_write.index_some(connection, most)

        return await to_the_end(transaction())
