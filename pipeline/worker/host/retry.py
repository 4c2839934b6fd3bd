"""Retries until success, for stores: they come back, and meanwhile the records to store are safe on the topic."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from pipeline.stores.database.errors import StoreError

log = logging.getLogger(__name__)

FIRST_DELAY: Final = 0.2
MAX_DELAY: Final = 30.0


class Retry:
    """Repeats a call. `trouble`: why it does not succeed, None while all is well; `given_up` ends the waiting."""

    def __init__(self, name: str, failed: Callable[[], None]) -> None:
        """`failed` is called at each failure."""
        self.name = name
        self.failed = failed
        self.trouble: str | None = None
        self.given_up = asyncio.Event()

    async def until_done(self, call: Callable[[], Awaitable[None]]) -> bool:
        """Repeat `call` while it raises StoreError, with back-off and jitter. Return False once `given_up` is set."""
        delay = FIRST_DELAY
        while not self.given_up.is_set():
            try:
                await call()
            except StoreError as error:  # skipping is no option: the batch waits until the store works again
                self.failed()
                if str(error) != self.trouble:
                    log.warning("%s: stands still until this passes: %s", self.name, error)
                self.trouble = str(error)
                try:
                    await asyncio.wait_for(self.given_up.wait(), delay * random.uniform(0.5, 1.5))  # noqa: S311  # jitter
                except TimeoutError:
                    delay = min(delay * 2, MAX_DELAY)
                continue
            if self.trouble is not None:
                log.info("%s: goes on", self.name)
                self.trouble = None
            return True
        return False
