"""What a version before tenants has stored gets the place that this version gives it: in small steps, while the store
role runs. Until then it is read where it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from pipeline.errors import StoreError
from pipeline.stores.sql import ThreadStore

BEGIN: Final = 600.0  # seconds after the start: gateways of the older version don't find threads that were moved
STEP: Final = 1.0  # seconds between two steps
AGAIN: Final = 60.0  # seconds until it is looked again, where there was nothing: older store roles may still write

log = logging.getLogger(__name__)


class OlderThreads:
    """Moves them; several workers may do so at once."""

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]], begin: float = BEGIN) -> None:
        self._store = store
        self._next = time.monotonic() + begin

    async def step(self) -> None:
        """Move some turns, if it is time to. What fails is tried again later."""
        if time.monotonic() < self._next:
            return
        moved = 0
        try:
            moved = await (await self._store()).move_older()
        except StoreError as error:
            log.warning("threads of an older version wait to be moved: %s", error)
        self._next = time.monotonic() + (STEP if moved else AGAIN)
