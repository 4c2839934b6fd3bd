"""Reads of the state topic.

After a restart, the whole state of a partition; later, the raw records of single runs: parked runs, and those whose
turn can't be built, or is too large.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from aiokafka import TopicPartition

from pipeline.assembly.records import Record, Refused, buried
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.results import Parked, Unbuilt
from pipeline.kafka.reading import read_once
from topics import state
from topics.catalog import STATE
from topics.state import RunKey, Segment
from turnmill.errors import InvalidRecord
from turnmill.settings import BrokerSettings

BATCH_SIZE: Final = 1000  # records; each is many small objects until it is taken

log = logging.getLogger(__name__)


class SpilledRecords:
    """The segments of a run, in their order. They are kept in a file, with one at a time in memory.

    Several runs may share `file`; `names`: the state keys of all segments of this one.
    """

    def __init__(self, run: RunKey, names: Collection[str], file: IO[bytes]) -> None:
        self.run = run
        self.names = frozenset(names)
        self.file = file
        self.spans: dict[tuple[int, int, int, bytes], tuple[int, int]] = {}  # by order: begin and size in the file

    def add(self, name: bytes, value: bytes, begin: int) -> None:
        """Add a segment in the form of the state topic; the file has it from `begin` on."""
        try:
            run, entry = state.decode(name, value)
        except InvalidRecord as error:  # rewritten by a newer worker
            log.warning("state entry %r skipped: %s", name[:80], error)
            return
        if isinstance(entry, Segment) and run == self.run:
            self.spans[entry.first_offset, entry.last_offset, entry.part, name] = begin, len(value)

    def __iter__(self) -> Iterator[Segment]:
        for (*_, name), (begin, size) in sorted(self.spans.items()):
            self.file.seek(begin)
            _, entry = state.decode(name, self.file.read(size))
            if isinstance(entry, Segment):
                yield entry


async def spilled_records(
    brokers: BrokerSettings,
    folder: Path,
    partition: int,
    runs: Mapping[RunKey, Collection[str]],
    here: Mapping[bytes | None, bytes | None],
) -> dict[RunKey, SpilledRecords]:
    """Return the segments of runs, given by state keys; the topic is read once for all of them.

    `here`: entries that the state topic does not have yet. The segments are kept in one unnamed file, which is deleted
    with the last of the runs. `folder` is TURNMILL_HOME, since temporary folders may be small, or in memory where a
    container may write nowhere else.

    Raises BrokerError, and OSError if they can't be kept.
    """
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  # as quick as making the file
    file = TemporaryFile(dir=folder)  # noqa: SIM115  # the runs hold it
    spilled = {run: SpilledRecords(run, names, file) for run, names in runs.items()}
    wanted = {name.encode(): records for run, records in spilled.items() for name in runs[run]}

    def keep(name: bytes, value: bytes) -> None:
        begin = file.seek(0, SEEK_END)
        file.write(value)
        file.flush()  # so that a full disk shows here
        wanted[name].add(name, value, begin)

    missing = set(wanted)
    for key, entry in here.items():
        if key is not None and entry is not None and key in missing:
            missing.remove(key)
            keep(key, entry)
    if missing:
        async with aclosing(read_entries(brokers, partition, missing)) as entries:
            async for name, value in entries:
                keep(name, value)
    return spilled


def letters_of(unbuilt: Unbuilt, segments: SpilledRecords) -> list[Refused]:
    """Return a dead letter for each raw record of a run that could not be built."""
    thread_id, detail = unbuilt.run.thread_id, unbuilt.detail
    return [letter for s in segments for letter in buried(s.records, s.last_offset, s.at, thread_id, detail)]


async def read_entries(
    brokers: BrokerSettings, partition: int, wanted: Collection[bytes]
) -> AsyncGenerator[tuple[bytes, bytes]]:
    """Yield the topic's entries of these state keys; rewritten ones are repeated. Raises BrokerError."""
    topic_partition = TopicPartition(STATE.full_name(brokers.topic_prefix), partition)
    async with aclosing(read_once(brokers, [topic_partition], max_poll_records=BATCH_SIZE)) as batches:
        async for _, records in batches:
            for record in records:
                if record.key in wanted and record.value is not None:
                    yield record.key, record.value


async def read_state(
    brokers: BrokerSettings, partitions: Iterable[int], empty: Callable[[], RestoredState]
) -> dict[int, RestoredState]:
    """Return the state of each partition; `empty` makes one that has nothing. Raises BrokerError.

    Uses a plain consumer, since Faust's tables take seconds.
    """
    topic = STATE.full_name(brokers.topic_prefix)
    states = {TopicPartition(topic, number): empty() for number in partitions}
    if not states:
        return {}
    async for partition, records in read_once(brokers, list(states), max_poll_records=BATCH_SIZE):
        # In a thread: large segments are parsed, to know what memory they will take.
        await asyncio.to_thread(_take_all, states[partition], records)
    return {partition.partition: state for partition, state in states.items()}


def _take_all(state: RestoredState, records: Iterable[Record]) -> None:
    for record in records:
        key = record.key or b""  # without one: a batch that was refused
        try:
            state.take(key, record.value)
        except InvalidRecord as error:  # from a newer worker, or another program
            log.warning("state entry %r skipped: %s", key[:80], error)


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """A parked run that is over. Until it is built, the events topic is needed from the offset `floor` on."""

    parked: Parked
    floor: int


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A background read of a partition of the state topic; its result is the records of some due runs.

    Runs are removed from the result as they are built.
    """

    partition: int
    task: asyncio.Task[dict[RunKey, SpilledRecords]]


def together(due: Mapping[RunKey, Due], most: int) -> dict[RunKey, tuple[str, ...]]:
    """Return the state keys of the runs for the next read.

    These are the runs that ended first, with at most `most` bytes of records together, but at least one run.
    """
    chosen: dict[RunKey, tuple[str, ...]] = {}
    size = 0
    for run, parked_run in due.items():
        size += parked_run.parked.size
        if chosen and size > most:
            break
        chosen[run] = parked_run.parked.segments
    return chosen
