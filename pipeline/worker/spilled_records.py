"""The raw records of a run that are on the state topic: for a parked one, and for one whose turn can't be built, or is
too large.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from aiokafka import TopicPartition

from pipeline.assembly.records import Refused, buried
from pipeline.assembly.restored_state import split
from pipeline.assembly.results import Unbuilt
from pipeline.kafka.reading import read, reader
from pipeline.settings import Settings
from threadmill.errors import InvalidRecord
from topics import state
from topics.catalog import STATE
from topics.state import ANYONE, RunKey, Segment

AT_ONCE: Final = 1000  # records

log = logging.getLogger(__name__)


class SpilledRecords:
    """The segments of one run, in their order. They are kept in a file without a name: in memory is one at a time.

    The file is in `folder`, as temporary ones are small, or in memory, where a container may write nowhere else.
    """

    def __init__(self, run: RunKey, folder: Path) -> None:
        """Raises OSError where the folder takes no file."""
        self.run = run
        self.names: dict[tuple[int, int, int, bytes], tuple[int, int]] = {}  # by its place -> where in the file
        folder.mkdir(parents=True, exist_ok=True)
        self.file = TemporaryFile(dir=folder)  # noqa: SIM115  # it is gone with the last reference to it

    def add(self, name: bytes, value: bytes) -> None:
        """A segment as it is on the state topic; of what an older version mixed the run's own part counts.

        Raises OSError where the disk is full.
        """
        try:
            own = list(self._own(name, value))
        except InvalidRecord as error:  # a newer worker has written it again
            log.warning("state entry %r skipped: %s", name[:80], error)
            return
        for segment in own:
            place = (segment.first_offset, segment.last_offset, segment.part, name)
            self.names[place] = self.file.tell(), len(value)
            self.file.write(value)
            self.file.flush()  # so that a full disk shows here

    def __iter__(self) -> Iterator[Segment]:
        for (*_, name), (begin, size) in sorted(self.names.items()):
            self.file.seek(begin)
            yield from self._own(name, self.file.read(size))

    def _own(self, name: bytes, value: bytes) -> Iterator[Segment]:
        run, entry = state.decode(name, value)
        if isinstance(entry, Segment) and run.tenant == ANYONE:
            yield from split({"": entry}).get(self.run.tenant, {}).values()
        elif isinstance(entry, Segment) and run == self.run:
            yield entry


async def spilled_records(
    settings: Settings,
    partition: int,
    run: RunKey,
    names: Collection[str],
    here: Mapping[bytes | None, bytes | None],
) -> SpilledRecords:
    """-> a run's segments of these state keys. `here`: entries that the state topic does not have yet.

    Raises BrokerError, and OSError where they can't be kept.
    """
    wanted = {name.encode() for name in names}
    found = SpilledRecords(run, settings.home)
    for name, value in here.items():
        if name in wanted and name is not None and value is not None:
            wanted.remove(name)
            found.add(name, value)
    if wanted:
        async with aclosing(read_entries(settings, partition, wanted)) as entries:
            async for name, value in entries:
                found.add(name, value)
    return found


def letters_of(unbuilt: Unbuilt, segments: SpilledRecords) -> list[Refused]:
    """One for each raw record of a run that could not be built."""
    thread_id, detail = unbuilt.run.thread_id, unbuilt.detail
    return [letter for s in segments for letter in buried(s.records, s.last_offset, s.at, thread_id, detail)]


async def read_entries(
    settings: Settings, partition: int, wanted: Collection[bytes]
) -> AsyncGenerator[tuple[bytes, bytes]]:
    """-> the entries of these state keys that the topic has; those that were written again come again.

    Raises BrokerError.
    """
    place = TopicPartition(STATE.full_name(settings.topic_prefix), partition)
    async with reader(settings, max_poll_records=AT_ONCE) as consumer:
        begins, ends = await consumer.beginning_offsets([place]), await consumer.end_offsets([place])
        async for _, records in read(consumer, {place: (begins[place], ends[place])}):
            for record in records:
                if record.key in wanted and record.value is not None:
                    yield record.key, record.value
