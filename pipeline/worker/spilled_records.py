"""The raw records of a spilled run whose turn can't be built: from the state topic to the dead letters."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pipeline.assembly.records import Refused, StoredRecord
from pipeline.assembly.results import Unbuilt
from pipeline.settings import Settings
from pipeline.worker.state_reader import read_state
from threadmill.errors import Reason
from topics import state
from topics.state import Segment


async def spilled_records(
    settings: Settings, partition: int, unbuilt: Unbuilt, here: Mapping[bytes | None, bytes | None]
) -> list[Refused]:
    """-> one for each raw record, in their order. `here`: entries that the state topic does not have yet.

    Raises BrokerError.
    """
    found = [segment for name, value in here.items() if (segment := _wanted(name, value, unbuilt)) is not None]
    if len(found) < len(unbuilt.segments):
        found += await read_segments(settings, partition, unbuilt.segments)
    found.sort(key=lambda segment: (segment.first_offset, segment.last_offset, segment.part))
    key = unbuilt.thread_id.encode()
    records = [StoredRecord(value, one.last_offset, one.at, key) for one in found for value in one.records]
    return [Refused(record, Reason.INVALID_EVENT, unbuilt.detail) for record in records]


async def read_segments(settings: Settings, partition: int, names: Collection[str]) -> list[Segment]:
    """-> the segments of these state keys that the topic has, in any order. Raises BrokerError."""
    found = (await read_state(settings, [partition]))[partition].segments.values()
    wanted = {name.encode() for name in names}
    return [segment for segments in found for key, segment in segments.items() if key in wanted]


def _wanted(key: bytes | None, value: bytes | None, unbuilt: Unbuilt) -> Segment | None:
    if key is None or value is None or key.decode() not in unbuilt.segments:
        return None
    _, entry = state.decode(key, value)
    return entry if isinstance(entry, Segment) else None
