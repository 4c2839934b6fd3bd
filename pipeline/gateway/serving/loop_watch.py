"""Measures how long the gateway's event loop is blocked: meanwhile, nobody is answered."""

from __future__ import annotations

import asyncio
from typing import Final

from pipeline.gateway.state import Service
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics

CHECK_INTERVAL: Final = 0.05  # seconds between two checks
MIN_BLOCK: Final = 0.01  # seconds; shorter blocks are not counted


class LoopWatch(Service):
    """Observes each block of the event loop of more than MIN_BLOCK seconds."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to check every CHECK_INTERVAL seconds, in the running loop."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + CHECK_INTERVAL, self._look, loop.time() + CHECK_INTERVAL, loop)

    async def close(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, due: float, loop: asyncio.AbstractEventLoop) -> None:
        late = loop.time() - due
        if late > MIN_BLOCK:
            self._metrics.observe(m.LOOP_HELD, late)
        self.start()
