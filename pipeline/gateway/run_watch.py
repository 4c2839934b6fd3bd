"""The open runs, followed on the broker: one consumer without a group, for all who ask.

It begins when somebody asks for the first time, or with the first scrape of `/metrics`, and goes on from then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from pipeline.assembly.run_list import RunList
from pipeline.errors import BrokerError
from pipeline.kafka.following import follow_on
from pipeline.kafka.reading import follow, reader
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.worker.open_run_rows import silent
from pipeline.worker.open_runs import AT_ONCE, restored
from topics.catalog import EVENTS, STATE
from turnmill.clock import now_ms
from turnmill.ending import ended

READY_WITHIN: Final = 15.0  # seconds that a caller waits for what is read first
AGAIN: Final = 2.0  # seconds after a failure
COUNTED: Final = 5.0  # seconds between two counts for the metrics

log = logging.getLogger(__name__)


class RunWatch:
    """Follows the runs; `runs` raises BrokerError until they are known."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._events = EVENTS.full_name(settings.topic_prefix)
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._runs: RunList | None = None
        self._trouble: str | None = None

    def start(self) -> None:
        """Begin to follow, where that has not begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="run-watch")

    async def runs(self) -> RunList:
        """-> the runs, which change as records come. Raises BrokerError."""
        self.start()
        try:
            async with asyncio.timeout(READY_WITHIN):
                await self._ready.wait()
        except TimeoutError:
            why = self._trouble or "what they have said since the last checkpoint is still being read"
            raise BrokerError(f"the open runs are not known yet: {why}") from None
        if self._runs is None:
            raise BrokerError(f"the open runs are not known: {self._trouble}")
        return self._runs

    async def close(self) -> None:
        """Leave the broker."""
        if self._task is not None:
            await ended(self._task)

    async def _run(self) -> None:
        await follow_on(self._follow, self._stopped, pause=AGAIN, log=log, meanwhile="open runs are not followed")

    def _stopped(self, trouble: str | None) -> None:
        self._trouble = trouble or self._trouble
        self._runs = None
        self._ready.clear()

    async def _follow(self) -> None:
        """Until the broker fails, or the topics have more partitions."""
        counted = 0.0
        async with reader(self._settings, max_poll_records=AT_ONCE) as consumer:
            self._runs, starts = await restored(self._settings, consumer)
            runs, self._trouble = self._runs, None
            async for batches in follow(self._settings, consumer, [EVENTS, STATE], starts):
                for place, records in batches.items():
                    for record in records:
                        if place.topic == self._events:
                            runs.take_event(record.value, record.offset, record.timestamp)
                        else:
                            runs.take_state(record.key, record.value)
                    await asyncio.sleep(0)
                self._ready.set()
                if time.monotonic() - counted > COUNTED:
                    counted = time.monotonic()
                    self._metrics.set(m.LISTED_RUNS, len(runs))
                    self._metrics.set(m.SILENT_RUNS, silent(runs, now_ms()))
