"""The live figures that all readers share; they are updated only while there are readers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import TopicPartition

from pipeline.assembly.run_list import RunList
from pipeline.gateway.dashboard.figures import WINDOW_SECONDS, Intake
from pipeline.gateway.live.follower import Follower, Offsets, Past
from pipeline.gateway.live.run_watch import RunWatch
from pipeline.gateway.state import Gateway, Service
from topics.catalog import DEAD_LETTERS, EVENTS, TELEMETRY, TURNS

LINGER: Final = 60.0  # seconds for which it continues without readers
FIRST_RECORDS: Final = 3_000  # the most records of each partition that are read at the start
MAX_LAG: Final = 50_000  # records of lag beyond which a partition's records are skipped
CATCHING_UP: Final = 5.0  # seconds: older records mean that the tail is still catching up


class FiguresTail(Service):
    """Takes the records of live figures. `skipped`: number of records left out."""

    name = "live figures"
    topics = (EVENTS, TELEMETRY, TURNS, DEAD_LETTERS)
    runs: Final = "seen"

    def __init__(self, gateway: Gateway, follower: Follower, run_watch: RunWatch) -> None:
        self._prices = gateway.settings.price_list
        self._follower = follower
        self._run_watch = run_watch
        self._names = {follower.name_of(topic): topic.name for topic in self.topics}
        self._leaving: asyncio.Task[None] | None = None
        self._watchers = 0
        self._late = 0.0  # time.monotonic() when the last late record was read
        self.intake = Intake(self._prices)
        self.skipped = 0

    @property
    def run_list(self) -> RunList:
        """The index of runs."""
        return self._follower.runs

    @property
    def trouble(self) -> str | None:
        """The reason why there are no figures; None if there are."""
        return self._follower.trouble or (None if self._follower.has_joined(self) else "connecting")

    @property
    def catching_up(self) -> bool:
        """Return True while records from before the first reader came are still being read."""
        known = self._follower.has_joined(self) and self._follower.has_joined(self._run_watch)
        return not known or time.monotonic() < self._late + 1

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Follow during the block, and LINGER seconds longer."""
        self._stay()
        for listener in (self._run_watch, self):
            self._follower.listen(listener)
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._leaving = asyncio.create_task(self._leave(), name="live figures, unwatched")

    async def _leave(self) -> None:
        await asyncio.sleep(LINGER)
        await self._follower.leave(self)

    async def close(self) -> None:
        """Cancel the pending leave: the follower closes."""
        self._stay()

    def _stay(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()

    async def starts(self, past: Past) -> Offsets:
        """Begin anew, and return where the window begins."""
        self.intake, self.skipped = Intake(self._prices), 0
        for run in self._follower.runs:
            run.text = ""
        return await past.since(self.topics, WINDOW_SECONDS, FIRST_RECORDS)

    def take(self, place: TopicPartition, records: Sequence[Any], behind: int) -> None:
        """Count records."""
        if self._follower.lags.get(place, 0) > MAX_LAG:
            self.skipped += len(records)
        elif self._names[place.topic] == EVENTS.name:
            for event in records:
                self.intake.event(event)
            if records and records[-1].at < (time.time() - CATCHING_UP) * 1000:
                self._late = time.monotonic()
        else:
            for record in records:
                self.intake.take(self._names[place.topic], record.value, record.timestamp)
