"""The open runs: keeps the gateway's index of runs up to date from the state topic, in addition to events.

It starts at the first request for open runs, or the first scrape of `/metrics`, and then goes on.
"""

from collections.abc import Sequence
from typing import Any, Final

from aiokafka import TopicPartition

from pipeline.assembly.run_list import RunList
from pipeline.gateway.live.follower import Follower, Offsets, Past
from pipeline.gateway.state import Service
from pipeline.observability import metrics as m
from pipeline.worker.repair.open_runs import beginnings, silent
from topics.catalog import EVENTS, STATE
from turnmill.clock import now_ms

READY_TIMEOUT: Final = 15.0  # seconds that a caller waits for the first reading


class RunWatch(Service):
    """Keeps track of open runs in the follower's index. A listener of the follower."""

    name = "the open runs"
    topics = (EVENTS, STATE)
    runs: Final = "open"

    def __init__(self, follower: Follower, metrics: m.Metrics) -> None:
        self._follower = follower
        self._metrics = metrics
        self._state = follower.name_of(STATE)

    async def open_runs(self) -> RunList:
        """Return the index of runs, which changes as records come. Raises BrokerError."""
        late = "what they have said since the last checkpoint is still being read"
        await self._follower.ready(self, READY_TIMEOUT, late)
        return self._follower.runs

    def count(self) -> None:
        """Set the metrics of open runs, if these are known; else begin to read them."""
        self._follower.listen(self)
        if self._follower.has_joined(self):
            self._metrics.set(m.LISTED_RUNS, len(self._follower.runs))
            self._metrics.set(m.SILENT_RUNS, silent(self._follower.runs, now_ms()))

    async def starts(self, past: Past) -> Offsets:
        """Return where the open runs begin."""
        reopen_ms = int(past.settings.reopen_window * 1000)
        return await beginnings(past.settings, past.consumer, reopen_ms, self._follower.runs.usual)

    def take(self, partition: TopicPartition, records: Sequence[Any], behind: int) -> None:
        """Take records of the state topic; events are in the index already."""
        if partition.topic == self._state:
            for record in records:
                self._follower.runs.take_state(record.key, record.value, partition.partition)
