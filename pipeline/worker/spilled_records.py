"""The raw records of a run that are on the state topic: for one whose turn can't be built, or is too large."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from aiokafka import TopicPartition

from pipeline.assembly.records import Refused, StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.results import Unbuilt
from pipeline.kafka.reading import read, reader
from pipeline.settings import Settings
from threadmill.errors import Reason
from topics.catalog import STATE
from topics.state import RunKey, Segment

AT_ONCE: Final = 1000  # records


async def spilled_segments(
    settings: Settings,
    partition: int,
    run: RunKey,
    names: Collection[str],
    here: Mapping[bytes | None, bytes | None],
) -> list[Segment]:
    """-> a run's segments of these state keys, in their order. `here`: entries that the state topic does not have yet.

    Raises BrokerError.
    """
    wanted = {name.encode() for name in names}
    found = RestoredState()
    for name, value in here.items():
        if name is not None and name in wanted:
            found.take(name, value)
    if len(found.segments) < len(wanted):
        found.segments |= await read_segments(settings, partition, wanted)
    return sorted(found.by_run().get(run, {}).values(), key=_place)


def buried(unbuilt: Unbuilt, segments: Sequence[Segment]) -> list[Refused]:
    """One for each raw record of a run that could not be built."""
    key = unbuilt.run.thread_id.encode()
    records = [StoredRecord(value, one.last_offset, one.at, key) for one in segments for value in one.records]
    return [Refused(record, Reason.INVALID_EVENT, unbuilt.detail) for record in records]


async def read_segments(
    settings: Settings, partition: int, wanted: Collection[bytes]
) -> dict[bytes, tuple[RunKey, Segment]]:
    """-> the segments of these state keys that the topic has, with their runs; nothing else is kept of it.

    Raises BrokerError.
    """
    place = TopicPartition(STATE.full_name(settings.topic_prefix), partition)
    found = RestoredState()
    async with reader(settings, max_poll_records=AT_ONCE) as consumer:
        begins, ends = await consumer.beginning_offsets([place]), await consumer.end_offsets([place])
        async for _, records in read(consumer, {place: (begins[place], ends[place])}):
            for record in records:
                if record.key in wanted and record.value is not None:
                    found.take(record.key, record.value)
    return found.segments


def _place(segment: Segment) -> tuple[int, int, int]:
    return segment.first_offset, segment.last_offset, segment.part
