"""The numbers of a store's threads and turns. A gateway counts them rarely, since a count reads all turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.threads.summaries import Counts

PATIENCE: Final = 1.0  # seconds that a caller waits for a count
REST: Final = 50  # a count that took n seconds is the newest for 50 n: counting takes 2 % of the time at most


class StoreCounts:
    """The newest count of a store's rows, which all callers share."""

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]]) -> None:
        """Prepare counting; `store` opens the store."""
        self._store = store
        self._counting: asyncio.Task[None] | None = None
        self._found: Counts | None = None
        self._failed: StoreError | None = None
        self._rested = 0.0

    async def get(self) -> Counts | None:
        """Return the newest numbers; None if the first count takes longer than PATIENCE. Raises StoreError.

        They are older than the time that it takes to count, by at most REST times as much.
        """
        if self._counting is None and time.monotonic() >= self._rested:
            self._counting = asyncio.create_task(self._count(), name="store counts")
        if self._counting is not None:
            await asyncio.wait([self._counting], timeout=PATIENCE)
        if self._failed is not None:
            raise self._failed.with_traceback(None)
        return self._found

    async def _count(self) -> None:
        begun = time.monotonic()
        try:
            self._found, self._failed = await count_rows(await self._store()), None
            ended = time.monotonic()
            self._rested = ended + REST * (ended - begun)
        except StoreError as error:
            self._failed = error
        finally:
            self._counting = None

    async def close(self) -> None:
        """End a count in progress."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait([self._counting])
