"""The work of the role assemble, and its checkpoint: nothing is lost whatever happens between two lines of it.

What was read is in one of four places: on the events topic after the committed offset, on the state topic, on the turns
or dead-letters topic, or delivered and marked as closed. The order is always:

    1. feed: records -> turns, telemetry, dead letters   (the floor holds until all are registered; large values of
       turns are in the content store before the turns that refer to them are)
    2. flush: every delivery confirmed by its own future
    3. segments of long-open runs; then marks of closed runs; then tombstones: each confirmed before the next
    4. commit the floor that was asked for before step 2

After a crash before 4, records are read again; they make the same turns, and storing them again changes nothing. A
restart trusts the state topic, so nothing is written there before its results are delivered.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pipeline.assembly import parked_runs
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.partition import Partition
from pipeline.assembly.restored_state import RestoredState
from pipeline.kafka.outbox import Outbox, Outgoing, Producer
from pipeline.kafka.reading import portions
from pipeline.observability import metrics as m
from pipeline.turns.redaction import Redaction
from pipeline.worker.assemble.limits import AssembleSettings
from pipeline.worker.assemble.metrics import AssemblyMetrics
from pipeline.worker.assemble.outgoing_results import (
    Offload,
    OutgoingResults,
    StateWaves,
    fits_inline,
    moved,
    offloaded,
)
from pipeline.worker.assemble.state_reads import (
    Due,
    Reading,
    SpilledRecords,
    letters_of,
    read_state,
    spilled_records,
    together,
)
from pipeline.worker.host.work import Records, Retry, Work
from topics.state import RunKey
from topics.turn_record import TurnRecord
from turnmill.errors import BrokerError

log = logging.getLogger(__name__)

UNCONFIRMED_BYTES: Final = 16_777_216  # of entries for the state topic that may wait for the next checkpoint
BUILD_SECONDS: Final = 1.0  # seconds of building parked runs at once; records of other partitions wait for so long
PARKED_FRACTION: Final = 10  # of the share: so much room is made at once, since all runs are looked at for it
WEIGHED_FRACTION: Final = 4  # of the share: estimates may be wrong by so much
FREE_FRACTION: Final = 16  # of the bound, for memory that is free among objects: Python does not return it
CHECK_RECORDS: Final = 1000  # records of a partition; compared to their cost, checking every open run costs little


@dataclass(slots=True)
class AssignedPartition:
    """A partition, its unsent results, and the floor that is kept until all of them are with the producer.

    `due`: parked runs that are over, in the order in which they ended.
    """

    core: Partition
    unsent: deque[Outgoing] = field(default_factory=deque)
    entries: StateWaves = field(default_factory=StateWaves)  # entries that depend on unsent results
    floor: int | None = None
    due: dict[RunKey, Due] = field(default_factory=dict)
    weight: int = 0  # of its open runs at the last check
    unseen: int = 0  # records since the open runs were last checked for spilling


class AssembleWork(Work):
    """The work of the role assemble. `redaction` and `offload` change turns before they are sent, in this order.

    `traces` is called with turns, and the number of their partition.
    """

    def __init__(
        self,
        settings: AssembleSettings,
        dialects: Mapping[str, Dialect],
        producer: Producer,
        counts: AssemblyMetrics,
        *,
        redaction: Redaction | None = None,
        offload: Offload | None = None,
        traces: Callable[[Sequence[TurnRecord], int], None] | None = None,
    ) -> None:
        self.settings = settings
        self.dialects = dialects
        self.results = OutgoingResults(settings.brokers.topic_prefix, counts.refused)
        self.outbox = Outbox(producer, self.results.too_large)
        self.counts = counts
        self.redaction = redaction
        self.offload = offload
        self.traces = traces
        self.fits = fits_inline if offload is None else offload.fits
        self.retry = Retry("assemble", partial(counts.metrics.add, m.CONTENT_FAILURES))
        self.limits = settings.limits
        self.held: dict[int, AssignedPartition] = {}
        self.waiting = StateWaves()  # entries that wait for the delivery of the results that they depend on
        self.ready = StateWaves()  # entries taken by a flush
        self.flushing = asyncio.Lock()
        self.reading: Reading | None = None  # one at a time, so that TURNMILL_HOME needs no more room
        self.built: SpilledRecords | None = None  # records of the parked run whose results are being handed over
        self.no_room: str | None = None  # why TURNMILL_HOME did not take the records of a run at the last attempt

    @property
    def trouble(self) -> str | None:
        """See `Work.trouble`."""
        return self.retry.trouble or self.no_room

    async def assign(self, starts: Mapping[int, int]) -> None:
        """Take partitions with their committed offsets; restore open and closed runs from the state topic."""
        most = self.settings.assembly_bytes // max(1, len(starts))
        empty = partial(RestoredState, self.dialects, most)
        remembered = await read_state(self.settings.brokers, starts, empty)
        held = {}
        rules = self.redaction
        turns, events, words = (None, None, str) if rules is None else (rules.record, rules.telemetry, rules.words)
        for number, start in starts.items():
            partition = Partition(self.dialects, self.limits, start, turns, events, self.fits, words)
            partition.restore(remembered.pop(number))
            held[number] = AssignedPartition(partition)
        self.held = held
        self._stop_reading()
        self.retry.given_up.clear()

    def drop(self) -> None:
        """Drop all state: another worker continues from the committed offset, and needs nothing but the state topic."""
        self.held = {}
        self._stop_reading()
        self.waiting, self.ready = StateWaves(), StateWaves()
        self.retry.trouble = self.no_room = None
        self.counts.forget()

    async def interrupt(self) -> None:
        """Stop waiting for the content store. A batch may also wait for the producer, which has a deadline."""
        self.retry.given_up.set()

    async def handle(self, partition: int, records: Records) -> None:
        """Do step 1 for a batch, portion by portion if it is large: runs may have to be parked in between."""
        for some in portions(records, len(records), self.limits.open_bytes):
            await self._handle(partition, some, much=some is not records)

    async def _handle(self, partition: int, records: Records, *, much: bool) -> None:
        held = self._hold(partition)
        held.core.feed(records)
        held.unseen += len(records)
        # With a lag, too much is read in a second to wait for the next tick.
        much = much or held.unseen >= CHECK_RECORDS or held.core.unspilled > self.limits.open_bytes
        if much:
            held.unseen = 0
            await self._spill(held)
        await self._send(partition, held)
        while self._waits_for_much(held) and self._goes_on(partition, held):
            await self._catch_up(partition, held)
        if much and sum(len(entry.value or b"") for entry in self.waiting.segments) > UNCONFIRMED_BYTES:
            await self.flush()

    async def tick(self, partition: int, idle_ms: int) -> None:
        """Do step 1 for the passing of time: apply deadlines, and move runs open for long to the state topic.

        Time is the broker's, from its records; when there is nothing left to read, it advances by the monotonic
        clock. A worker that comes back after an hour reads its backlog before it closes anything.
        """
        held = self._hold(partition)
        now = held.core.now + idle_ms
        while not held.core.tick(now):
            await self._send(partition, held)
            if not self._goes_on(partition, held):
                return
            self._hold(partition)
        await self._spill(held)
        await self._send(partition, held)
        self.counts.count_early(partition, held.core)
        if not self._goes_on(partition, held):
            return
        if self.reading is None:
            if held.due:
                self.reading = self._read_for(partition, held)
        elif self.reading.partition == partition and self.reading.task.done():
            await self._build_some(self.reading)

    async def _spill(self, held: AssignedPartition) -> None:
        """Move runs that have been open for long to the state topic.

        If all partitions together exceed the limit, those that exceed their share park runs: in a thread, since a
        restart may have found large ones. Far below it runs are not weighed, which takes 10 µs for each.
        """
        held.core.spill()
        held.weight = parked_runs.weight(held.core)
        most = self.settings.assembly_bytes - self.settings.assembly_bytes // FREE_FRACTION
        share = most // max(1, len(self.held))
        if held.weight > share // WEIGHED_FRACTION:
            await asyncio.to_thread(parked_runs.weigh, held.core)
            held.weight = parked_runs.weight(held.core)
        # The sum is computed only if this partition can park: hundreds of partitions come here each second.
        if held.weight > share and sum(each.weight for each in self.held.values()) > most:
            await asyncio.to_thread(parked_runs.park, held.core, share - share // PARKED_FRACTION)
            held.weight = parked_runs.weight(held.core)

    def _hold(self, partition: int) -> AssignedPartition:
        held = self.held[partition]
        if held.floor is None:
            held.floor = held.core.floor()
        return held

    async def _send(self, number: int, held: AssignedPartition) -> None:
        """Hand results to the producer, in order. Those that it does not take now stay, and keep the floor."""
        if self.held.get(number) is held and await self._hand_over(number, held):
            held.floor = None

    # ---- parked runs that are over

    def _read_for(self, number: int, held: AssignedPartition) -> Reading:
        """Begin to read the records of the due runs; after the disk was full, of a single run."""
        runs = together(held.due, self.limits.run_bytes if self.no_room is None else 0)
        task = asyncio.ensure_future(self._spilled(number, held, runs))
        task.add_done_callback(_looked_at)
        return Reading(number, task)

    def _stop_reading(self) -> None:
        if self.reading is not None:
            self.reading.task.cancel()
            self.reading = None

    def _waits_for_much(self, held: AssignedPartition) -> bool:
        """Return True if more records of the due runs wait, or are to be read, than allowed while others go on."""
        if not held.due:
            return False
        size = sum([due.parked.size for due in held.due.values()])
        return size > self.limits.run_bytes or held.core.ends.awaited_bytes > UNCONFIRMED_BYTES

    def _goes_on(self, number: int, held: AssignedPartition) -> bool:
        """Return False if the partition is revoked, or about to be; its next owner builds the due runs."""
        return not self.retry.given_up.is_set() and self.held.get(number) is held

    async def _catch_up(self, number: int, held: AssignedPartition) -> None:
        """Wait for the read under way, or begin a read for this partition, and build its runs."""
        self.reading = reading = self.reading or self._read_for(number, held)
        await asyncio.wait([reading.task])
        if self.reading is reading:
            await self._build_some(reading)

    async def _build_some(self, reading: Reading) -> None:
        """Build the runs of a finished read, for at most BUILD_SECONDS. If that raises, it is tried again later.

        They are built one after the other, so that only one such turn is in memory at a time.
        """
        number, held, clock = reading.partition, self.held[reading.partition], asyncio.get_running_loop().time
        until = clock() + BUILD_SECONDS
        try:
            records = reading.task.result()
            while records:
                run = next(iter(records))
                held.floor = self.floor(number)
                await asyncio.to_thread(parked_runs.build, held.core, held.due[run].parked, records[run])
                if not self._goes_on(number, held):
                    return
                del held.due[run]
                await self._send_built(number, held, records.pop(run))
                if clock() > until and records:
                    return
        except BaseException:
            self.reading = None
            raise
        self.reading = None

    async def _send_built(self, number: int, held: AssignedPartition, records: SpilledRecords) -> None:
        self.built = records
        try:
            await self._send(number, held)
        finally:
            self.built = None

    # ---- results

    async def _hand_over(self, number: int, held: AssignedPartition) -> bool:
        """Hand results over. Return False if the partition is about to be revoked."""
        out = held.core.out
        while out.oversized:
            oversized = out.oversized[0]
            segments = await self._spilled_of(number, held, oversized.run, oversized.segments)
            out.add(await asyncio.to_thread(held.core.finishing.cut_off, oversized, segments))
            del out.oversized[0]
        if self.offload is not None and not await moved(out, self.offload, self.retry):
            return False
        turns = self.results.turns(number, out)
        while out.unbuilt:
            unbuilt = out.unbuilt[0]
            out.dead += letters_of(unbuilt, await self._spilled_of(number, held, unbuilt.run, unbuilt.segments))
            del out.unbuilt[0]
        held.unsent += [*turns, *self.results.others(number, out)]
        held.entries.segments.extend(self.results.state(number, name, value) for name, value in out.segments)
        for name, value in out.marks:
            wave = held.entries.tombstones if value is None else held.entries.marks
            wave.append(self.results.state(number, name, value))
        floor = held.core.floor() if held.floor is None else held.floor
        held.due.update({parked.run: Due(parked, floor) for parked in out.parked})
        held.core.take_out()  # only now, as all its results have been taken over
        self.counts.count(number, held.core, out)
        if self.redaction is not None:
            self.counts.redacted(self.redaction)
        if self.traces is not None:
            self.traces(out.turns, number)
        if self.offload is not None and not await offloaded(
            held.unsent, self.results.turns_topic, self.offload, self.retry
        ):
            return False
        await self.outbox.send(held.unsent)
        held.entries.move_to(self.waiting)
        return True

    async def _spilled_of(
        self, number: int, held: AssignedPartition, run: RunKey, names: Sequence[str]
    ) -> SpilledRecords:
        """As `_spilled`, for a single run. The records of a parked run were just read."""
        if self.built is not None and self.built.run == run and self.built.names.issuperset(names):
            return self.built
        return (await self._spilled(number, held, {run: names}))[run]

    async def _spilled(
        self, number: int, held: AssignedPartition, runs: Mapping[RunKey, Sequence[str]]
    ) -> dict[RunKey, SpilledRecords]:
        """Return segments of runs, given by state keys, that are on the state topic, or on their way to it.

        Raises BrokerError, and OSError if TURNMILL_HOME is full: then the runs wait for room.
        """
        entries = [self.results.state(number, name, value) for name, value in held.core.out.segments]
        here = {entry.key: entry.value for entry in (*held.entries.segments, *entries)}
        known = all(name.encode() in here for names in runs.values() for name in names)
        if not known and not await self.flush():
            raise BrokerError("the state topic has not taken all records yet of a run that has no turn")
        try:
            records = await spilled_records(self.settings.brokers, self.settings.folder, number, runs, here)
        except OSError as error:
            self.no_room = f"{self.settings.folder} takes no records of a large run: {error}"
            raise
        self.no_room = None
        return records

    def floor(self, partition: int) -> int | None:
        """Return the offset to commit, once `flush` has succeeded."""
        held = self.held.get(partition)
        if held is None:
            return None
        floor = held.core.floor() if held.floor is None else held.floor
        return min([floor, *(due.floor for due in held.due.values())])

    async def flush(self) -> bool:
        """Send turns, then marks.

        A mark that is written before its turn could lose the turn, since a restart trusts the mark.
        """
        async with self.flushing:  # a second caller must wait for the entries that the first one took
            self.waiting.move_to(self.ready)
            if not await self.outbox.flush():
                return False
            for wave in self.ready:
                if wave and not await self._delivered(wave):
                    return False
            return True

    async def _delivered(self, wave: deque[Outgoing]) -> bool:
        try:
            await self.outbox.send(wave)
        except Exception as error:  # not raised, which would end the worker: the rest waits for the next flush
            self.outbox.warn(type(error).__name__, "the producer accepts no records: %r", error)
            return False
        return await self.outbox.flush()


def _looked_at(task: asyncio.Task[object]) -> None:
    """Mark the task's exception as retrieved: after a revocation nobody awaits the result, and asyncio would warn."""
    if not task.cancelled():
        task.exception()
