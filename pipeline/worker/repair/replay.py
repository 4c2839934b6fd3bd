"""Assembles a time range of the events topic again, with the same core as a worker, without group and state.

A run is in the range if any of its records is. So reading begins earlier than the range by a run's longest time, and
goes on after it for the same time at most, until the last of its runs is over.

Partitions are read one after the other, as workers do. Of a single thread, the records of all partitions are joined in
the order of the broker's time, and held in memory: a producer may have scattered its runs.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.dialects import DIALECTS
from pipeline.kafka.reading import bounds_of, may_name, offsets_at, read, reader
from pipeline.turns.event_coverage import lacks_beginning
from pipeline.turns.redaction import Redaction
from topics.catalog import EVENTS
from topics.state import RunKey
from topics.turn_record import TurnRecord
from turnmill.clock import now_ms
from turnmill.errors import InvalidRecord
from turnmill.settings import BrokerSettings
from turnmill.wire.envelope import decode

BATCH_SIZE: Final = 2000  # records
TICK_MS: Final = 1000  # of the broker's time between two checks of deadlines, as in a worker
MAX_NAMED: Final = 20  # runs of which the names are kept
# A late event finds its run, however late it is; but the limit of bytes of interrupted runs applies.
FOR_EVER: Final = 2**53  # ms
REMEMBERED: Final = 1_000_000  # closed runs of a partition, 150 bytes each

Records = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The range to replay: broker times in epoch ms, `since` included, `until` not; None: unlimited.

    Several tenants may have threads with the same `thread_id`; without `tenant`, all of them are replayed. An empty
    `tenant` means threads without one.
    """

    since: int | None = None
    until: int | None = None
    thread_id: str | None = None
    tenant: str | None = None


@dataclass(slots=True)
class Seen:
    """The numbers of a replay.

    `cut` and `open` name some of the runs that were left out, as `run of thread` (`of tenant`).
    """

    records: int = 0
    refused: int = 0
    cut_runs: int = 0
    open_runs: int = 0
    cut: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    removed: int = 0  # partitions whose records at the range's beginning were removed by retention


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of a partition: read from `first`; the range is from `begin` to `end`; the topic ends at `last`."""

    first: int
    begin: int
    end: int
    last: int


async def replayed(
    settings: BrokerSettings,
    limits: Limits,
    stretch: Stretch,
    redaction: Redaction | None,
    seen: Seen,
    progress: Callable[[int, int], object],
    fits: Callable[[TurnRecord], bool],
) -> AsyncGenerator[list[TurnRecord]]:
    """Yield turn records as a worker would produce them, a few at a time. Raises BrokerError and CallerError.

    `progress` is called with the number of records done, and the total, which may grow. `fits`: whether the turns topic
    takes a record, in the form in which a worker sends it.
    """
    async with reader(settings, max_poll_records=BATCH_SIZE) as consumer:
        spans = await _spans(settings, limits, stretch, consumer, seen)
        if stretch.thread_id is not None:
            span, records = await _joined(consumer, spans, stretch.thread_id.encode(), progress)
            core = Replay(limits, stretch, redaction, span, seen, fits)
            for number in range(0, len(records), BATCH_SIZE):
                yield core.feed(records[number : number + BATCH_SIZE])
            yield core.finish()
            return
        total, done = sum(span.end - span.first for span in spans.values()), 0
        for partition, span in spans.items():
            core = Replay(limits, stretch, redaction, span, seen, fits)
            async with aclosing(read(consumer, {partition: (span.first, span.last)})) as batches:
                async for _, records in batches:
                    if turns := core.feed(records):
                        yield turns
                    progress(done + min(core.next, span.end) - span.first, total)
                    if core.over:
                        break
            if turns := core.finish():
                yield turns
            done += span.end - span.first
            progress(done, total)


class Replay:
    """The replay of a partition: takes records, and returns the turns of the range."""

    def __init__(
        self,
        limits: Limits,
        stretch: Stretch,
        redaction: Redaction | None,
        span: Span,
        seen: Seen,
        fits: Callable[[TurnRecord], bool],
    ) -> None:
        self.limits = replace(limits, reopen_ms=FOR_EVER, dedupe_ms=FOR_EVER, closed_runs=REMEMBERED)
        polish, redacted = (None, str) if redaction is None else (redaction.record, redaction.words)
        self.core = Partition(DIALECTS, self.limits, span.first, polish, fits=fits, redacted=redacted)
        self.stretch = stretch
        self.span = span
        self.seen = seen
        self.next = span.first
        self.until: int | None = None  # broker ms, after the range; no run of it lasts longer

    @property
    def over(self) -> bool:
        """True if no later record matters."""
        waiting = self.core.runs.open or self.core.runs.reopenable
        return self.next >= self.span.end and (not waiting or (self.until is not None and self.core.now > self.until))

    def feed(self, records: Records) -> list[TurnRecord]:
        """Feed records of ascending offsets, by the second, so that deadlines pass in between as they did then."""
        turns: list[TurnRecord] = []
        end = self.span.end
        for _, some in groupby(records, key=lambda record: (record.timestamp // TICK_MS, record.offset >= end)):
            wanted = [record for record in some if self._wanted(record)]
            self.seen.records += len(wanted)
            self.core.feed(wanted)
            turns += self._taken()
            if wanted:
                turns += self._ended(wanted[-1].timestamp)
        self.next = records[-1].offset + 1
        if self.next >= self.span.end and self.until is None:
            self.until = records[-1].timestamp + self.limits.run_ms
        return turns

    def finish(self) -> list[TurnRecord]:
        """End the reading: at the topic's end, deadlines run by the clock. Runs that are still open are left out."""
        turns = self._ended(now_ms()) if self.next >= self.span.last else self._taken()
        for key, run in self.core.runs.open.items():
            if run.last_offset >= self.span.begin:
                self.seen.open_runs += 1
                _name(self.seen.open, key)
        return turns

    def _ended(self, now: int) -> list[TurnRecord]:
        """Return the turns of the runs whose deadlines have passed at `now`."""
        turns: list[TurnRecord] = []
        while not self.core.tick(now):
            turns += self._taken()
        return turns + self._taken()

    def _wanted(self, record: Any) -> bool:
        stretch, behind = self.stretch, record.offset >= self.span.end
        if stretch.thread_id is None and stretch.tenant is None and not behind:
            return True
        try:
            envelope = decode(record.value)
        except InvalidRecord:
            return False
        key = RunKey(envelope.get("tenant"), envelope["thread_id"], envelope["run_id"])
        return (
            (stretch.thread_id is None or key.thread_id == stretch.thread_id)
            and (stretch.tenant is None or key.tenant == (stretch.tenant or None))
            and (not behind or key in self.core.runs.open or key in self.core.runs.reopenable)
        )

    def _runs(self, turns: Iterable[TurnRecord]) -> Iterator[tuple[RunKey, list[TurnRecord]]]:
        """Yield the records of each run, with those of its sub-agents' threads, since they share the run's mark."""
        runs: list[list[TurnRecord]] = []
        for record in turns:
            if runs and _is_within(record, runs[-1]):
                runs[-1].append(record)
            else:
                runs.append([record])
        return ((_key(records[0]), records) for records in runs)

    def _taken(self) -> list[TurnRecord]:
        """Return the finished turns, without runs that ended before the range or lack their beginning."""
        out = self.core.take_out()
        for oversized in out.oversized:
            out.add(self.core.finishing.cut_off(oversized, []))
        self.seen.refused += sum(refused.record.offset >= self.span.begin for refused in out.dead)
        turns: list[TurnRecord] = []
        for key, records in self._runs(out.turns):
            closed = self.core.runs.marks.get(key)
            if closed is not None and closed.offset < self.span.begin:
                continue
            # The missing events may be before the first offset read: a reopened run takes longer than any other.
            if self.span.first > 0 and any(map(lacks_beginning, records)):
                self.seen.cut_runs += 1
                _name(self.seen.cut, key)
                continue
            turns += records
        return turns


def _key(record: TurnRecord) -> RunKey:
    return RunKey(record.get("tenant"), record["thread_id"], record["run_id"])


def _is_within(record: TurnRecord, run: Sequence[TurnRecord]) -> bool:
    """Return True if a record is of this run: its own, or of a sub-agent in its stream."""
    parent = record.get("parent", {}).get("thread_id")
    key, run_key = _key(record), _key(run[0])
    same_run = key._replace(thread_id=run_key.thread_id) == run_key
    return key == run_key or (same_run and any(turn["thread_id"] == parent for turn in run))


def _name(names: list[str], key: RunKey) -> None:
    if len(names) < MAX_NAMED:
        names.append(f"{key.run_id} of thread {key.thread_id}" + (f" of {key.tenant}" if key.tenant else ""))


async def _joined(
    consumer: Any, spans: Mapping[Any, Span], thread_id: bytes, progress: Callable[[int, int], object]
) -> tuple[Span, list[Any]]:
    """Return a thread's records from all partitions in the order of time, numbered anew, and their span."""
    held: list[tuple[int, Any]] = []  # 0: before the range, 1: in it, 2: after it
    total, done = sum(span.last - span.first for span in spans.values()), 0
    wanted = {partition: (span.first, span.last) for partition, span in spans.items()}
    async with aclosing(read(consumer, wanted)) as batches:
        async for partition, records in batches:
            begin, end = spans[partition].begin, spans[partition].end
            found = [record for record in records if may_name(record, thread_id)]
            held += [((record.offset >= begin) + (record.offset >= end), record) for record in found]
            done += len(records)
            progress(done, total)
    progress(total, total)
    held.sort(key=lambda item: (item[0], item[1].timestamp, item[1].partition, item[1].offset))
    first = int(any(span.first > 0 for span in spans.values()))
    begin = first + sum(part == 0 for part, _ in held)
    end = begin + sum(part == 1 for part, _ in held)
    numbered = [replace(record, offset=number) for number, (_, record) in enumerate(held, first)]
    return Span(first, begin, end, first + len(held)), numbered


async def _spans(
    settings: BrokerSettings, limits: Limits, stretch: Stretch, consumer: Any, seen: Seen
) -> dict[Any, Span]:
    """Return, by partition, the span to read, if there is any."""
    held = {partition: bound for partition, bound in (await bounds_of(settings, EVENTS)).items() if bound[0] < bound[1]}
    firsts = {partition: first for partition, (first, _) in held.items()}
    lasts = {partition: last for partition, (_, last) in held.items()}
    reach = None if stretch.since is None else max(0, stretch.since - limits.run_ms)
    reads = firsts if reach is None else await offsets_at(consumer, reach, lasts)
    begins = firsts if stretch.since is None else await offsets_at(consumer, stretch.since, lasts)
    ends = lasts if stretch.until is None else await offsets_at(consumer, stretch.until, lasts)
    if stretch.until is not None and stretch.thread_id is not None:  # no run of the range lasts longer
        lasts = await offsets_at(consumer, stretch.until + limits.run_ms, lasts)
    spans = {}
    for partition, first in firsts.items():
        if begins[partition] < ends[partition]:
            seen.removed += begins[partition] == first > 0
            spans[partition] = Span(reads[partition], begins[partition], ends[partition], lasts[partition])
    return spans
