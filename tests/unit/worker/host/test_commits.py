"""A stage reads again what its work could not take, and waits for its partitions for as long as it takes."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaError

from pipeline.assembly.records import StoredRecord
from pipeline.observability import metrics as m
from pipeline.observability.audit import FAILED, Entry
from pipeline.observability.metrics import Metrics
from pipeline.worker.host import commits as commits_module
from pipeline.worker.host.commits import HOLE_READS, Stage
from pipeline.worker.host.work import Batch, Records

GENERATION = 1


class Work:
    """Keeps the offsets that it was given; `fail` times it raises instead. `left` is not applied yet."""

    trouble = None

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.next: dict[int, int] = {}
        self.fail = 0
        self.left = 0

    async def assign(self, starts: Mapping[int, int]) -> None:
        self.next = dict(starts)

    def drop(self) -> None:
        self.next = {}

    async def interrupt(self) -> None:
        pass

    async def handle(self, partition: int, records: Records) -> None:
        if self.fail:
            self.fail -= 1
            raise RuntimeError("no")
        self.offsets += [record.offset for record in records if record.offset >= self.next[partition]]
        self.next[partition] = records[-1].offset + 1

    def behind(self, partition: int) -> int:
        return self.left

    def floor(self, partition: int) -> int | None:
        return self.next.get(partition)

    async def flush(self) -> bool:
        return True

    async def tick(self, partition: int, idle_ms: int) -> None:
        pass


def batch(start: int, end: int) -> Batch:
    records = [StoredRecord(b"{}", offset, 0) for offset in range(start, end)]
    return Batch.of(records)  # type: ignore[arg-type]  # has all that a stage reads


@pytest.fixture
def work() -> Work:
    return Work()


class Source:
    """Partitions from their `starts` on, one unless a test adds more; `reread` is what was read again."""

    def __init__(self) -> None:
        self.starts = {0: 0}
        self.reread: list[tuple[int, int]] = []
        self.highwater: int | None = None
        self.polled: int | None = None

    async def seek_to_starts(self) -> dict[int, int]:
        return self.starts

    async def read_again(self, partition: int, offset: int) -> None:
        self.reread.append((partition, offset))

    def highwater_of(self, _: int) -> int | None:
        return self.highwater

    def last_poll_of(self, _: int) -> int | None:
        return self.polled


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def reread(source: Source) -> list[tuple[int, int]]:
    return source.reread


@pytest.fixture
def stage(work: Work) -> Stage:
    return Stage("store", "turns", work, Metrics(10))


async def test_a_batch_that_failed_is_read_again_even_if_nothing_follows(
    stage: Stage, source: Source, work: Work, reread: list[tuple[int, int]]
) -> None:
    stage.assigned(source, GENERATION)
    await stage.process(0, batch(0, 3), GENERATION)
    work.fail = 1
    with pytest.raises(RuntimeError):
        await stage.process(0, batch(3, 5), GENERATION)
    assert reread == [(0, 3)]
    await stage.process(0, batch(3, 5), GENERATION)
    assert work.offsets == [0, 1, 2, 3, 4]


async def test_a_takeover_is_counted_with_its_time(stage: Stage, source: Source) -> None:
    for generation in (GENERATION, GENERATION + 1):
        stage.assigned(source, generation)
        await asyncio.wait_for(stage._ready.wait(), 5)
    count = stage.metrics.registry.get_sample_value(f"{m.TAKEOVER_SECONDS.name}_count", {"role": "store"})
    assert count == 2


async def test_a_batch_behind_one_that_failed_waits_for_it(
    stage: Stage, source: Source, work: Work, reread: list[tuple[int, int]]
) -> None:
    stage.assigned(source, GENERATION)
    work.fail = 1
    with pytest.raises(RuntimeError):
        await stage.process(0, batch(0, 3), GENERATION)
    for start, end in [(3, 5), (5, 6), (0, 3), (3, 5), (5, 6)]:
        await stage.process(0, batch(start, end), GENERATION)
    assert work.offsets == [0, 1, 2, 3, 4, 5]
    assert reread == [(0, 0), (0, 0), (0, 0)]


async def test_records_wait_until_it_is_known_where_reading_starts(
    stage: Stage, source: Source, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, known = asyncio.Event(), asyncio.Event()
    failures = [TimeoutError("no coordinator")]

    async def seek() -> dict[int, int]:
        if failures:
            raise failures.pop()
        asked.set()
        await known.wait()
        return {0: 2}

    monkeypatch.setattr(source, "seek_to_starts", seek)
    stage.assigned(source, GENERATION)
    waiting = asyncio.ensure_future(stage.process(0, batch(2, 4), GENERATION))
    await asked.wait()
    assert not stage.ready
    assert work.offsets == []
    known.set()
    await waiting
    assert work.offsets == [2, 3]


async def test_a_hole_is_real_only_when_it_is_there_each_time(
    stage: Stage, source: Source, work: Work, reread: list[tuple[int, int]]
) -> None:
    stage.assigned(source, GENERATION)
    for _ in range(HOLE_READS):
        await stage.process(0, batch(3, 5), GENERATION)
        assert work.offsets == []
    kept = list[Entry]()
    stage.removed = kept.append
    await stage.process(0, batch(3, 5), GENERATION)
    assert (work.offsets, reread) == ([3, 4], [(0, 0)] * HOLE_READS)
    assert [(entry.action, entry.subject, entry.outcome) for entry in kept] == [
        ("records.removed", "turns/0@0-2", FAILED)
    ]
    labels = {"role": "store", "topic": "turns"}
    assert stage.metrics.registry.get_sample_value(m.RECORDS_REMOVED.name, labels) == 3
    await stage.process(0, batch(5, 6), GENERATION)
    assert (work.offsets, len(kept)) == ([3, 4, 5], 1)


async def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
    stage: Stage, source: Source, work: Work, reread: list[tuple[int, int]]
) -> None:
    stage.assigned(source, GENERATION)
    await stage.process(0, batch(0, 5), GENERATION)
    source.highwater = 5
    await stage.process(0, batch(0, 2), GENERATION)  # read twice, as around a rebalance
    assert (work.offsets, stage.next) == ([0, 1, 2, 3, 4], {0: 5})
    source.highwater = 2
    await stage.process(0, batch(0, 2), GENERATION)
    await stage.process(0, batch(0, 2), GENERATION)  # as the consumer seeks to the start
    assert (work.offsets, stage.next) == ([0, 1, 2, 3, 4, 0, 1], {0: 2})


async def test_different_holes_are_each_read_again(
    stage: Stage, source: Source, work: Work, reread: list[tuple[int, int]]
) -> None:
    stage.assigned(source, GENERATION)
    for start in [3, 5, 3, 5, 7, 3]:
        await stage.process(0, batch(start, start + 1), GENERATION)
    assert (work.offsets, len(reread)) == ([], 6)


async def test_a_batch_of_an_earlier_generation_is_dropped(stage: Stage, source: Source, work: Work) -> None:
    stage.assigned(source, GENERATION)
    await stage.process(0, batch(0, 2), GENERATION - 1)
    await stage.process(1, batch(0, 2), GENERATION)
    assert work.offsets == []
    await stage.process(0, batch(0, 2), GENERATION)
    assert work.offsets == [0, 1]


async def test_nothing_is_taken_after_quiescence(stage: Stage, source: Source, work: Work) -> None:
    stage.assigned(source, GENERATION)
    await stage.process(0, batch(0, 2), GENERATION)
    await stage.quiesce()
    await stage.process(0, batch(2, 4), GENERATION)
    assert (work.offsets, stage.committable(0), stage.ready) == ([0, 1], 2, False)
    stage.dropped()
    assert stage.committable(0) is None


async def test_what_was_handed_in_and_not_applied_is_lag(stage: Stage, source: Source, work: Work) -> None:
    stage.assigned(source, GENERATION)
    assert stage.lag(0) is None
    source.highwater = 10
    await stage.process(0, batch(0, 4), GENERATION)
    assert stage.lags() == {0: 6}
    work.left = 3
    assert stage.lags() == {0: 9}


async def test_offsets_that_hold_no_record_are_no_hole_and_no_lag(
    stage: Stage, source: Source, work: Work, reread: list[tuple[int, int]]
) -> None:
    stage.assigned(source, GENERATION)
    source.highwater = 7
    await stage.process(0, batch(0, 2), GENERATION)
    await stage.process(0, Batch(batch(3, 5).records, 2, 6), GENERATION)
    assert (stage.committable(0), stage.lags()) == (6, {0: 1})
    await stage.process(0, Batch([], 6, 7), GENERATION)
    assert (work.offsets, reread, stage.lags(), stage.committable(0)) == ([0, 1, 3, 4], [], {0: 0}, 7)
    work.next[0] = 3
    assert stage.committable(0) == 3, "a record is still needed"


async def test_progress_is_what_is_applied_not_what_is_handed_in(stage: Stage, source: Source, work: Work) -> None:
    stage.assigned(source, GENERATION)
    source.highwater = 10
    await stage.process(0, batch(0, 2), GENERATION)

    async def gets_on() -> bool:
        stage.last_progress = 0
        await stage.tick()
        return stage.last_progress > 0

    assert await gets_on()
    work.left = 2
    await stage.process(0, batch(2, 4), GENERATION)
    assert not await gets_on()
    work.left = 1
    assert await gets_on()
    assert not await gets_on()
    work.left = 0
    await stage.process(0, batch(4, 10), GENERATION)
    assert await gets_on()
    assert await gets_on(), "nothing is left"


async def test_time_passes_only_while_the_broker_says_that_nothing_is_left(
    stage: Stage, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    source.polled, source.highwater = 1, 2
    told: list[int] = []

    async def tick(_: int, idle_ms: int) -> None:
        told.append(idle_ms)

    monkeypatch.setattr(stage.work, "tick", tick)
    monkeypatch.setattr(commits_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    stage.assigned(source, GENERATION)
    await stage.process(0, batch(0, 1), GENERATION)

    async def after(seconds: float, answers: int) -> int:
        now[0] += seconds
        source.polled += answers
        await stage.tick()
        return told[-1]

    assert await after(5, 1) == 0, "a record is left"
    await stage.process(0, batch(1, 2), GENERATION)
    assert await after(1, 1) == 0, "since now"
    assert await after(1, 1) == 1000
    assert await after(13, 0) == 0, "stopped meanwhile: the broker was not asked"
    assert await after(1, 1) == 14_000
    source.highwater = 3
    assert await after(1, 1) == 0
    source.highwater = 2
    assert await after(1, 1) == 0


async def test_a_tick_that_fails_ends_neither_the_worker_nor_those_of_other_partitions(
    stage: Stage, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticked = []

    async def tick(partition: int, _: int) -> None:
        ticked.append(partition)
        raise KafkaError("no room")

    monkeypatch.setattr(stage.work, "tick", tick)
    source.starts[1] = 0
    stage.assigned(source, GENERATION)
    await stage.process(0, batch(0, 1), GENERATION)
    await stage.tick()
    assert (stage.ready, ticked) == (True, [0, 1])


async def test_state_of_an_earlier_assignment_never_counts(stage: Stage, work: Work) -> None:
    """A client that is being stopped takes the cancellation of its caller for its own, and goes on."""
    built: list[int] = []
    inside, most = 0, 0
    answer = asyncio.Event()  # of the broker

    class Deaf(Source):
        async def seek_to_starts(self) -> dict[int, int]:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            try:
                while not answer.is_set():
                    with suppress(asyncio.CancelledError):
                        await answer.wait()
            finally:
                inside -= 1
            built.append(self.starts[0])
            return self.starts

    sources = [Deaf(), Deaf(), Deaf()]
    for offset, source in enumerate(sources):
        source.starts = {0: offset}
        stage.assigned(source, GENERATION + offset)
        await asyncio.sleep(0)
    assert inside == 1
    answer.set()
    await stage.process(0, batch(2, 3), GENERATION + 2)
    assert (built[0], built[-1], most) == (0, 2, 1)
    assert (stage.next, work.offsets) == ({0: 3}, [2])

    answer.clear()
    stage.assigned(sources[0], GENERATION + 3)
    await asyncio.sleep(0)
    building = set(stage._building)
    assert inside == len(building) == 1
    stage.dropped()
    answer.set()
    await asyncio.wait(building)
    assert built[-1] == 0, "its state came all the same"
    assert (stage.next, stage.ready) == ({}, False)
