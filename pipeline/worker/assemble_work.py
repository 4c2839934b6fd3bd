"""The work of the role assemble, and its checkpoint: nothing is lost whatever happens between two lines of it.

What was read is in one of four places: on the events topic behind the committed offset, on the state topic, on the
turns or dead-letters topic, or delivered and remembered as closed. In this order, always:

    1. feed: records -> turns, telemetry, dead letters   (the floor holds until all are registered; large values of
       turns are in the content store before the turns that refer to them are)
    2. flush: every delivery confirmed by its own future
    3. segments of long-open runs; then marks of closed runs; then tombstones: each confirmed before the next
    4. commit the floor that was asked for before step 2

A crash before 4 reads records again: the same turns come out, and storing them again changes nothing. A restart
believes what the state topic says, so that holds nothing whose results are not delivered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from pipeline.assembly import parked_runs
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.partition import Partition
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.results import Out
from pipeline.kafka.outbox import Outbox, Outgoing, Producer
from pipeline.kafka.portions import portions
from pipeline.observability import metrics as m
from pipeline.policies.budgets import COMMANDS
from pipeline.settings import Settings
from pipeline.turns.redaction import Redaction
from pipeline.worker.assembly_limits import limits_of
from pipeline.worker.assembly_metrics import AssemblyMetrics
from pipeline.worker.offloading import Offload, fits_inline, moved, offloaded
from pipeline.worker.outgoing_results import OutgoingResults, StateWaves
from pipeline.worker.retry import Retry
from pipeline.worker.state_reads import Due, Reading, SpilledRecords, letters_of, read_state, spilled_records, together
from pipeline.worker.work import Records
from topics.state import RunKey
from topics.turn_record import TurnRecord
from turnmill.errors import BrokerError

log = logging.getLogger(__name__)

UNCONFIRMED: Final = 16_777_216  # bytes for the state topic that may wait for the next checkpoint
BUILDING: Final = 1.0  # seconds at once for parked runs: what other partitions have read waits as long
MANY: Final = 1000  # records of a partition: to look at every open run costs little beside them


@dataclass(slots=True)
class Held:
    """A partition, its results that are to be sent, and the floor that holds until all of them are with the producer.

    `due`: parked runs that are over, by when they were.
    """

    core: Partition
    unsent: deque[Outgoing] = field(default_factory=deque)
    entries: StateWaves = field(default_factory=StateWaves)  # that rely on what is unsent
    floor: int | None = None
    due: dict[RunKey, Due] = field(default_factory=dict)
    weight: int = 0  # of its open runs, when it was looked at last
    unseen: int = 0  # records since the open runs were looked at for what is to be spilled


class AssembleWork:
    """The work of the role assemble. `redaction` and `offload` have turns before they go out, in this order.

    `traces` is told of them, with the number of their partition.
    """

    def __init__(
        self,
        settings: Settings,
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
        self.results = OutgoingResults(settings.topic_prefix, counts.refused)
        self.outbox = Outbox(producer, self.results.too_large)
        self.counts = counts
        self.redaction = redaction
        self.offload = offload
        self.traces = traces
        self.fits = fits_inline if offload is None else offload.fits
        self.retry = Retry("assemble", partial(counts.metrics.add, m.CONTENT_FAILURES))
        tell_use = any(one.enforce in COMMANDS for one in settings.budget_list)
        self.limits = replace(limits_of(settings), tell_use=tell_use)
        self.held: dict[int, Held] = {}
        self.waiting = StateWaves()  # for the delivery of the results that they rely on
        self.ready = StateWaves()  # taken by a flush
        self.flushing = asyncio.Lock()
        self.reading: Reading | None = None  # one at a time, so that TURNMILL_HOME needs no more room
        self.built: SpilledRecords | None = None  # of the parked run whose results are handed over now
        self.no_room: str | None = None  # why TURNMILL_HOME took no records of a run, when it was asked last

    @property
    def trouble(self) -> str | None:
        """See `Work.trouble`."""
        return self.retry.trouble or self.no_room

    async def assign(self, starts: Mapping[int, int]) -> None:
        """Partitions with their committed offsets; open runs and closed ones come back from the state topic."""
        most = self.settings.assembly_bytes // max(1, len(starts))
        empty = partial(RestoredState, self.dialects, most, self.limits.park_bytes)
        remembered = await read_state(self.settings, starts, empty)
        held = {}
        rules = self.redaction
        turns, events, words = (None, None, str) if rules is None else (rules.record, rules.telemetry, rules.words)
        for number, start in starts.items():
            partition = Partition(self.dialects, self.limits, start, turns, events, self.fits, words)
            partition.restore(remembered.pop(number))
            held[number] = Held(partition)
        self.held = held
        self._stop_reading()
        self.retry.given_up.clear()

    def drop(self) -> None:
        """Another worker reads on from the committed offset. What is not in the state topic yet, is not needed."""
        self.held = {}
        self._stop_reading()
        self.waiting, self.ready = StateWaves(), StateWaves()
        self.retry.trouble = self.no_room = None
        self.counts.forget()

    async def interrupt(self) -> None:
        """Don't wait for the content store. Beside it a batch waits for the producer, and that has a deadline."""
        self.retry.given_up.set()

    def behind(self, partition: int) -> int:
        """`handle` applies all."""
        return 0

    async def handle(self, partition: int, records: Records) -> None:
        """Step 1 for a batch. A large one goes portion by portion: what it becomes may have to be parked in between."""
        for some in portions(records, len(records), self.limits.open_bytes):
            await self._handle(partition, some, much=some is not records)

    async def _handle(self, partition: int, records: Records, *, much: bool) -> None:
        held = self._hold(partition)
        held.core.feed(records)
        held.unseen += len(records)
        # Behind a lag, what is read in a second is too much to wait for the next tick.
        much = much or held.unseen >= MANY or held.core.unspilled > self.limits.open_bytes
        if much:
            held.unseen = 0
            await self._spill(held)
        await self._send(partition, held)
        while self._waits_for_much(held) and self._goes_on(partition, held):
            await self._catch_up(partition, held)
        if much and sum(len(entry.value or b"") for entry in self.waiting.segments) > UNCONFIRMED:
            await self.flush()

    async def tick(self, partition: int, idle_ms: int) -> None:
        """Step 1 for the passing of time: deadlines, and runs that have been open for long go to the state topic.

        Time is the broker's, as its records tell it; where there is nothing left to read it goes on by the
        monotonic clock. A worker that comes back after an hour reads its backlog before it closes anything.
        """
        held = self._hold(partition)
        held.core.tick(held.core.now + idle_ms)
        await self._spill(held)
        await self._send(partition, held)
        if not self._goes_on(partition, held):
            return
        if self.reading is None:
            if held.due:
                self.reading = self._read_for(partition, held)
        elif self.reading.partition == partition and self.reading.task.done():
            await self._build_some(self.reading)

    async def _spill(self, held: Held) -> None:
        """Move runs that have been open for long to the state topic.

        Where all partitions together hold more than they may, those that hold more than their share park runs: in a
        thread, as a restart may have found large ones.
        """
        held.core.spill()
        held.weight = parked_runs.weight(held.core)
        most = self.settings.assembly_bytes
        share = most // max(1, len(self.held))
        # All are added up only for one that has something to park: hundreds of partitions come here each second.
        if held.weight > share and sum(each.weight for each in self.held.values()) > most:
            await asyncio.to_thread(parked_runs.park, held.core, share)
            held.weight = parked_runs.weight(held.core)

    def _hold(self, partition: int) -> Held:
        held = self.held[partition]
        if held.floor is None:
            held.floor = held.core.floor()
        return held

    async def _send(self, number: int, held: Held) -> None:
        """Hand results to the producer, in order. What it does not take now stays, and holds the floor."""
        if self.held.get(number) is held and await self._hand_over(number, held):
            held.floor = None

    # ---- parked runs that are over

    def _read_for(self, number: int, held: Held) -> Reading:
        """Begin to read the records of the runs that are due. Where the disk was full, those of one alone."""
        runs = together(held.due, self.limits.run_bytes if self.no_room is None else 0)
        task = asyncio.ensure_future(self._spilled(number, held, runs))
        task.add_done_callback(_looked_at)
        return Reading(number, task)

    def _stop_reading(self) -> None:
        if self.reading is not None:
            self.reading.task.cancel()
            self.reading = None

    def _waits_for_much(self, held: Held) -> bool:
        """Return True if more waits for the due runs, or is to be read of them, than may while others go on."""
        if not held.due:
            return False
        size = sum([due.parked.size for due in held.due.values()])
        return size > self.limits.run_bytes or held.core.ends.awaited_bytes > UNCONFIRMED

    def _goes_on(self, number: int, held: Held) -> bool:
        """Return False if the partition is about to go, or gone; its next owner builds the runs that are due."""
        return not self.retry.given_up.is_set() and self.held.get(number) is held

    async def _catch_up(self, number: int, held: Held) -> None:
        """Wait for the read that is under way, or for one for this partition, and build what it has brought."""
        self.reading = reading = self.reading or self._read_for(number, held)
        await asyncio.wait([reading.task])
        if self.reading is reading:
            await self._build_some(reading)

    async def _build_some(self, reading: Reading) -> None:
        """Build the runs of a read that is done, for BUILDING at most. Where that raises, it is tried again later.

        They are built one after the other, so that one such turn is in memory at a time.
        """
        number, held, clock = reading.partition, self.held[reading.partition], asyncio.get_running_loop().time
        until = clock() + BUILDING
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

    async def _send_built(self, number: int, held: Held, records: SpilledRecords) -> None:
        self.built = records
        try:
            await self._send(number, held)
        finally:
            self.built = None

    # ---- results

    async def _hand_over(self, number: int, held: Held) -> bool:
        """Hand results over. Return False if the partition is about to go."""
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
        held.core.out = Out()  # not before all of its results are here in full
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

    async def _spilled_of(self, number: int, held: Held, run: RunKey, names: Sequence[str]) -> SpilledRecords:
        """As `_spilled`, for one run. Of one that was parked its records were read a moment ago."""
        if self.built is not None and self.built.run == run and self.built.names.issuperset(names):
            return self.built
        return (await self._spilled(number, held, {run: names}))[run]

    async def _spilled(
        self, number: int, held: Held, runs: Mapping[RunKey, Sequence[str]]
    ) -> dict[RunKey, SpilledRecords]:
        """Segments of runs, by their state keys, that are on the state topic, or on their way to it.

        Raises BrokerError, and OSError where TURNMILL_HOME is full: the runs wait for room then.
        """
        entries = [self.results.state(number, name, value) for name, value in held.core.out.segments]
        here = {entry.key: entry.value for entry in (*held.entries.segments, *entries)}
        known = all(name.encode() in here for names in runs.values() for name in names)
        if not known and not await self.flush():
            raise BrokerError("the state topic has not taken all records yet of a run that has no turn")
        try:
            found = await spilled_records(self.settings, number, runs, here)
        except OSError as error:
            self.no_room = f"{self.settings.home} takes no records of a large run: {error}"
            raise
        self.no_room = None
        return found

    def floor(self, partition: int) -> int | None:
        """Return the offset to commit, once `flush` has succeeded."""
        held = self.held.get(partition)
        if held is None:
            return None
        own = held.core.floor() if held.floor is None else held.floor
        return min([own, *(due.floor for due in held.due.values())])

    async def flush(self) -> bool:
        """Send turns, then marks.

        A mark that came before its turn could lose the turn: a restart would believe the mark.
        """
        async with self.flushing:  # a second caller must wait for what the first one took
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
        except Exception as error:  # the rest waits for the next flush; raised, it would end the worker
            self.outbox.warn(type(error).__name__, "the producer takes nothing: %r", error)
            return False
        return await self.outbox.flush()


def _looked_at(task: asyncio.Task[object]) -> None:
    """Its error is raised where its result is used; where its partition is gone by then, it is nobody's."""
    if not task.cancelled():
        task.exception()
