"""Parked runs that are over, and the read of the state topic that serves those of a partition together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.assembly.results import Parked
from pipeline.worker.spilled_records import SpilledRecords
from topics.state import RunKey


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """A parked run that is over. Until it is built the events topic is needed from the offset `floor` on."""

    parked: Parked
    floor: int


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A read of a partition of the state topic, which goes on beside all other work; -> the records of some due runs.

    Runs are taken out of its result as they are built.
    """

    partition: int
    task: asyncio.Task[dict[RunKey, SpilledRecords]]


def together(due: Mapping[RunKey, Due], most: int) -> dict[RunKey, tuple[str, ...]]:
    """-> the state keys of the runs that one read serves: those that were over first, whose records have `most` bytes
    together; of the first run in any case.
    """
    chosen: dict[RunKey, tuple[str, ...]] = {}
    size = 0
    for run, one in due.items():
        size += one.parked.size
        if chosen and size > most:
            break
        chosen[run] = one.parked.segments
    return chosen
