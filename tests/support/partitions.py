"""Partitions of the toy's records, as a worker has them, and what another worker finds of them."""

from __future__ import annotations

from typing import Any

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.results import Out
from tests.support.toy import TOYS, Envelope, Log


def partition_of(log: Log, **limits: Any) -> Partition:
    """A partition that was fed a log."""
    partition = Partition(TOYS, Limits(**limits), 0)
    partition.feed(log.records)
    return partition


def fed(*envelopes: Envelope | bytes | None, **limits: Any) -> Partition:
    """A partition that was fed these records."""
    log = Log()
    for each in envelopes:
        log.add(each)
    return partition_of(log, **limits)


def remembered(*outs: Out) -> RestoredState:
    """What a restart finds, when all of these were delivered."""
    found = RestoredState()
    for out in outs:
        for name, value in [*out.segments, *out.marks]:
            found.take(name.encode(), value)
    return found


def taken(partition: Partition) -> Out:
    """The results of a partition since they were last taken."""
    out, partition.out = partition.out, Out()
    return out
