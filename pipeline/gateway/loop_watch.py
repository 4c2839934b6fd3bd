"""Measures for how long the gateway's event loop is held: nobody is answered meanwhile."""

from __future__ import annotations

import asyncio
from typing import Final

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics

EVERY: Final = 0.05  # seconds between two looks
LEAST: Final = 0.01  # seconds that are a hold


class LoopWatch:
    """Observes each hold of more than LEAST seconds."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look every EVERY seconds, in the loop that runs now."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + EVERY, self._look, loop.time() + EVERY, loop)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, due: float, loop: asyncio.AbstractEventLoop) -> None:
        late = loop.time() - due
        if late > LEAST:
            self._metrics.observe(m.LOOP_HELD, late)
        self.start()
