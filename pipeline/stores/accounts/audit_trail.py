"""Audit entries on their way to the store, in the background: no request waits for them, and losses are counted."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from itertools import islice
from typing import Final

from pipeline.observability.audit import REFUSED, Entry
from pipeline.stores.accounts.audit import add_audit
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from turnmill.ending import END_TIMEOUT, ended

WRITE_INTERVAL: Final = 0.5  # seconds between two writes
BATCH_SIZE: Final = 500
MAX_BUFFERED: Final = 10_000  # entries that are buffered while the store is unavailable
MINUTE_MS: Final = 60_000
MAX_COUNTED: Final = 1_000  # different refusals and reads of a minute: thousands of refusals can't fill the table

log = logging.getLogger(__name__)


class AuditTrail:
    """Buffers entries of one process. `notify`: webhooks get them, too; `lost` is called with how many are dropped."""

    def __init__(
        self, store: Callable[[], Awaitable[ThreadStore]], lost: Callable[[int], None], *, notify: bool
    ) -> None:
        self._store = store
        self._lost = lost
        self._notify = notify
        self._waiting = deque[Entry]()
        self._minute = 0
        self._seen = set[Hashable]()
        self._closing = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    def keep(self, entry: Entry) -> None:
        """Buffer an entry; repeats of the same refusal within a minute are left out."""
        once = entry.who, entry.token, entry.address, entry.action, entry.subject
        if entry.outcome == REFUSED and not self.is_new(entry.at, once):
            return
        if len(self._waiting) >= MAX_BUFFERED:
            self._lost(1)
        else:
            self._waiting.append(entry)

    def is_new(self, at: int, what: Hashable) -> bool:
        """Return True if this was not seen in the minute of `at` (epoch ms) yet."""
        if at // MINUTE_MS != self._minute:
            self._minute, self._seen = at // MINUTE_MS, set()
        if what in self._seen:
            return False
        if len(self._seen) >= MAX_COUNTED:
            self._lost(1)
            return False
        self._seen.add(what)
        return True

    def start(self) -> None:
        """Begin to write in the background."""
        self._writing = asyncio.create_task(self._go_on())

    async def close(self) -> None:
        """Write the buffered entries; those that can't be written are lost."""
        self._closing.set()
        if self._writing is not None:
            # A write that is cancelled may be committed already, and its entries would be written a second time.
            await asyncio.wait([self._writing], timeout=END_TIMEOUT)
            await ended(self._writing)
        try:
            await self.flush()
        except StoreError as error:
            log.warning("%d entries of the audit log are not in the store: %s", len(self._waiting), error)
            self._lost(len(self._waiting))

    async def flush(self) -> None:
        """Write the buffered entries. Raises StoreError; the entries then stay buffered."""
        while self._waiting:
            some = list(islice(self._waiting, BATCH_SIZE))
            await add_audit(await self._store(), some, notify=self._notify)
            for _ in some:
                self._waiting.popleft()

    async def _go_on(self) -> None:
        while not self._closing.is_set():
            with suppress(StoreError):  # whatever else needs the store reports it
                await self.flush()
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_INTERVAL):
                    await self._closing.wait()
