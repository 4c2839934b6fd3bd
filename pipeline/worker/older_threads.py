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
from topics.thread_key import ThreadKey

BEGIN: Final = 600.0  # seconds after the start: gateways of the older version don't find threads that were moved
STEP: Final = 1.0  # seconds between two steps
AGAIN: Final = 60.0  # seconds until the next round: older store roles may still write
NAMED: Final = 5  # threads in one line of the log

log = logging.getLogger(__name__)


class OlderThreads:
    """Moves them, round by round; several workers may do so at once."""

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]], begin: float = BEGIN) -> None:
        self._store = store
        self._next = time.monotonic() + begin
        self._after = ""
        self._kept: list[ThreadKey] = []  # in this round
        self._logged: list[ThreadKey] = []

    async def step(self) -> None:
        """Move some turns, if it is time to. What fails is tried again later."""
        if time.monotonic() < self._next:
            return
        try:
            moved = await (await self._store()).move_older(self._after)
        except StoreError as error:
            log.warning("threads of an older version wait to be moved: %s", error)
            self._next = time.monotonic() + AGAIN
            return
        self._kept += moved.kept
        self._after = moved.after or ""
        if moved.after is None:
            self._end_round()
        self._next = time.monotonic() + (AGAIN if moved.after is None else STEP)

    def _end_round(self) -> None:
        """Log which threads keep turns in older rows, where these are others than in the round before."""
        if self._kept and self._kept != self._logged:
            log.warning(
                "turns of an older version stay in their older rows, since the store has other events of their runs; "
                "`turnmill replay --thread ID` joins both; threads: %d: %s",
                *(len(self._kept), ", ".join(key.text for key in self._kept[:NAMED])),
            )
        self._logged, self._kept = self._kept, []
