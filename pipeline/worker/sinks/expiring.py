"""Expires threads while the store role runs, in one worker at a time, step by step, with pauses."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.stores.keeping.expiry import Expired, Expiry
from pipeline.stores.threads.store import ThreadStore
from pipeline.worker.host.steps import Steps
from turnmill.clock import now_ms

MAX_TRANSACTIONS: Final = 5  # transactions in a row, so that a backlog shrinks although ticks are rare
PAUSE: Final = 0.1  # seconds between two of them, in which writers go on
ROUND_INTERVAL: Final = 600.0  # seconds between two rounds
RETRY_DELAY: Final = 60.0  # seconds after a failure, or while another worker does it
LEASE_MS: Final = 900_000  # after which another worker takes over if this one has died

log = logging.getLogger(__name__)


class Expiring:
    """Expires threads besides the role's own work. `expiry`: of a store; None without a retention: it does nothing."""

    def __init__(
        self,
        expiry: Callable[[ThreadStore], Expiry] | None,
        store: Callable[[], Awaitable[ThreadStore]],
        metrics: Metrics,
    ) -> None:
        self._expiry_of = expiry
        self._store = store
        self._metrics = metrics
        self._holder = uuid.uuid4().hex
        self._expiry: Expiry | None = None
        self.steps = Steps(self._step, RETRY_DELAY, log, "threads whose retention is over wait to expire")

    def step(self) -> None:
        """Begin a step, if it is time to."""
        if self._expiry_of is not None:
            self.steps.begin()

    async def _step(self) -> float:
        assert self._expiry_of is not None  # else no step begins
        store = await self._store()
        self._expiry = self._expiry or self._expiry_of(store)
        now = now_ms()
        if not await store.lease_expiry(self._holder, now, now + LEASE_MS):
            return RETRY_DELAY
        for _ in range(MAX_TRANSACTIONS):
            gone, more = await self._expiry.step(now)
            count(self._metrics, gone)
            if not more:
                return ROUND_INTERVAL
            await asyncio.sleep(PAUSE)
        return 0.0


def count(metrics: Metrics, gone: Expired) -> None:
    """Count what was deleted."""
    metrics.add(m.EXPIRED_THREADS, gone.threads)
    metrics.add(m.EXPIRED_TURNS, gone.turns)
    metrics.add(m.EXPIRED_OBJECTS, gone.objects)
    metrics.add(m.EXPIRED_BYTES, gone.bytes)
    metrics.add(m.EXPIRED_ARCHIVED, gone.archived)
