"""Partitions of the toy's records, as a worker has them, and what another worker finds of them."""

from collections.abc import Mapping
from typing import Any

from pipeline.assembly.limits import Limits
from pipeline.assembly.parked_runs import build
from pipeline.assembly.partition import Partition
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.results import Out
from tests.support.toy import TOYS, Envelope, Log
from topics.state import Segment, decode


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


def built(partition: Partition, state: Mapping[str, bytes]) -> None:
    """Build parked runs that are over, as their host does; `state`: what the state topic has."""
    while partition.out.parked:
        parked = partition.out.parked.pop(0)
        there = {**state, **dict(partition.out.segments)}
        segments = []
        for name in parked.segments:
            _, entry = decode(name.encode(), there[name])
            assert isinstance(entry, Segment)
            segments.append(entry)
        build(partition, parked, segments)


def taken(partition: Partition) -> Out:
    """The results of a partition since they were last taken."""
    return partition.take_out()
