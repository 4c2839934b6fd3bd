"""The pipeline's state on the broker: how far each role has read, and the number of dead letters."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from pydantic import BaseModel

from pipeline.kafka.offsets import group_lag, record_count
from pipeline.settings import Settings
from pipeline.worker.host.roles import default_roles
from topics.catalog import DEAD_LETTERS

FRESH_SECONDS: Final = 2.0  # seconds for which an answer is reused: many dashboards ask at the same time


class PartitionPlace(BaseModel):
    """A consumer group's place in one partition; `committed` null where it never committed."""

    partition: int
    committed: int | None
    end: int
    lag: int


class RoleLag(BaseModel):
    """A role's lag."""

    role: str
    group: str
    topic: str
    lag: int
    partitions: list[PartitionPlace]


class BrokerStatus:
    """Lag and dead letters. Callers within FRESH_SECONDS share one request to the broker."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._found: tuple[float, tuple[list[RoleLag], int]] | None = None

    async def get(self, settings: Settings) -> tuple[list[RoleLag], int]:
        """Return the lag of each role, and the number of dead letters. Raises BrokerError."""
        async with self._lock:
            if self._found is None or time.monotonic() - self._found[0] > FRESH_SECONDS:
                self._found = (time.monotonic(), await _broker(settings))
            roles, letters = self._found[1]
            return roles, letters


async def _broker(settings: Settings) -> tuple[list[RoleLag], int]:
    running = default_roles(settings)
    lags = await asyncio.gather(*(group_lag(settings, role.group(settings), [role.topic]) for role in running))
    roles = [
        RoleLag(
            role=role.name,
            group=role.group(settings),
            topic=role.topic.full_name(settings.topic_prefix),
            lag=sum(row.lag for row in rows),
            partitions=[
                PartitionPlace(partition=row.partition, committed=row.committed, end=row.end, lag=row.lag)
                for row in rows
            ],
        )
        for role, rows in zip(running, lags, strict=True)
    ]
    return roles, await record_count(settings, DEAD_LETTERS)
