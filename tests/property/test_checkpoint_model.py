"""The checkpoint under everything that can happen between two lines of it, against a world that is plain data.

A log for each partition, topics that only grow, a committed offset for each partition, and workers that read, are
interrupted at any delivery, fenced or killed. Stage, AssembleWork, Outbox and Partition are the real ones; Kafka is a
few lists, because here any order of its answers can be had.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, deque
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import pytest
from aiokafka.errors import KafkaError
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pipeline.assembly.offline import close
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.run import Run
from pipeline.assembly.run_states import TRANSITIONS, Event, State
from pipeline.kafka.outbox import Outgoing
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.turns.thread_document import rank
from pipeline.worker.assemble import checkpoint as checkpoint_module
from pipeline.worker.assemble.checkpoint import AssembleWork
from pipeline.worker.assemble.limits import assemble_settings, limits_of
from pipeline.worker.assemble.metrics import AssemblyMetrics
from pipeline.worker.host import commits as commits_module
from pipeline.worker.host.commits import HOLE_READS, Stage
from pipeline.worker.host.work import Batch
from tests.support.run_moves import Row, RunMoves
from tests.support.toy import START, TOYS, Envelope, envelope, said, text
from topics import telemetry, turn_record
from topics.turn_record import TurnRecord
from turnmill.wire.envelope import encode

PARTITIONS = 2
SETTINGS = Settings(
    gap_timeout=2,
    idle_timeout=10,
    run_timeout=60,
    terminal_grace=1,
    spill_after=0.5,
    reopen_window=1e6,
    dedupe_window=1e6,
)
LIMITS = limits_of(SETTINGS)
METRICS = Metrics(10)
DEADLINES = 100_000  # ms: longer than any of them
# What this world does not do to a run, by its settings and by its events.
NOT_HERE: Final = {
    Event.MEMORY_BOUND,
    Event.STREAM_INTERRUPTED,
    Event.WINDOW_FULL,
    Event.RUN_TIMEOUT,
    Event.TOO_LARGE,
    Event.UNBUILDABLE,
    Event.GIVEN_UP,
    Event.REOPEN_WINDOW_OVER,
    Event.REOPEN_BOUND,
    Event.DEDUPE_WINDOW_OVER,
    Event.CLOSED_BOUND,
}
# The worker must be killed between the records of a run and its mark.
SELDOM: Final = {(State.SPILLED, Event.PUBLISHER_COMPLETE), (State.SPILLED, Event.PUBLISHER_INTERRUPTED)}


def a_run(number: int, rng: random.Random) -> list[Envelope]:
    """A run as records in order. One of five is cut off, one never says that it is over."""
    events: list[Any] = []
    for step in range(rng.randint(1, 3)):
        events += text(f"run {number} step {step} ", f"{rng.randrange(1000)}")
        if rng.random() < 0.5:
            events += [{"type": "usage", "data": {"output_tokens": rng.randrange(100)}}]
        if rng.random() < 0.5:
            events += [
                {"type": "open", "id": "x"},
                {"type": "delta", "id": "x", "delta": "…"},
                {"type": "shut", "id": "x"},
            ]
        events += [{"type": "step"}]
    kind = number % 5
    if kind < 3:
        events.append({"type": "finish"})
    cuts = sorted(rng.sample(range(1, len(events)), min(len(events) - 1, rng.randint(1, 4))))
    thread_id = f"6f1d6f5e-6f0a-4c0b-9d51-{number:012d}"
    records = [
        envelope(start, events[start:end], thread_id=thread_id, run_id=f"run-{number}")
        for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True)
    ]
    records[0]["run"] = {"model_name": "m", "request": f"prompt {number}"}
    if kind in (0, 1):
        records[-1]["end"] = "complete"
    elif kind == 3:
        records.append(envelope(len(events), [], thread_id=thread_id, run_id=f"run-{number}", end="aborted"))
    return records


def right_turns(records: list[Envelope]) -> list[TurnRecord]:
    """What must be stored of a run once all deadlines have passed."""
    run: Run | None = None
    for offset, record in enumerate(records):
        source = StoredRecord(b"", offset, record["ts"])
        run = run or Run(record, TOYS["toy"], source)
        run.feed(record, source)
    assert run is not None
    over = run.end is not None or run.builder.ended is not None
    return close(run, run.verdict() if over else "timeout")[0]


class Cut(Exception):
    """The worker is killed here."""


class Producer:
    """Sends in order within a partition of a topic, in any order across them; fails, or is cut off, as told."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.queues: dict[tuple[str, int], deque[Any]] = {}
        self.refuse = 0  # so many of the next sends raise
        self.fail = 0  # so many of the next deliveries fail
        self.until_cut: int | None = None

    async def send_batch(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> tuple[int, asyncio.Future[object]]:
        await asyncio.sleep(0)
        if self.refuse:
            self.refuse -= 1
            raise KafkaError("no room")
        delivery = asyncio.get_running_loop().create_future()
        taken = self.rng.randint(1, len(records))
        batch = [(record.key, record.value, record.headers) for record in records[:taken]]
        self.queues.setdefault((topic, partition), deque()).append((delivery, batch))
        return taken, delivery

    def deliver_one(self) -> bool:
        full = [place for place, queue in self.queues.items() if queue]
        if not full:
            return False
        if self.until_cut is not None:
            if not self.until_cut:
                raise Cut
            self.until_cut -= 1
        place = self.rng.choice(full)
        delivery, batch = self.queues[place].popleft()
        if self.fail and self.rng.random() < 0.7:
            self.fail -= 1
            if not delivery.done():
                delivery.set_exception(KafkaError("not delivered"))
            return True
        self.world.topics.setdefault(place, []).extend(batch)
        if not delivery.done():
            delivery.set_result(None)
        return True


class Worker:
    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.producer = Producer(world, random.Random(seed))
        self.work = AssembleWork(assemble_settings(SETTINGS), TOYS, self.producer, AssemblyMetrics(METRICS, "events"))
        self.stage = Stage("assemble", "events", self.work, METRICS)
        self.starts: dict[int, int] = {}
        self.position: dict[int, int] = {}
        self.dropped: dict[int, int] = {}  # partition -> fetches in a row that Faust dropped
        self.generation = 0
        self.zombie = False

    def highwater_of(self, partition: int) -> int:
        return len(self.world.logs[partition])

    def last_poll_of(self, _: int) -> int:
        return self.world.now

    async def read_again(self, partition: int, offset: int) -> None:
        self.position[partition] = offset

    async def seek_to_starts(self) -> dict[int, int]:
        return self.starts

    async def assign(self, partitions: list[int], generation: int) -> None:
        self.starts = {partition: self.world.committed[partition] for partition in partitions}
        self.position, self.generation, self.zombie = dict(self.starts), generation, False
        self.stage.assigned(self, generation)
        await self.stage._ready.wait()

    async def commit(self) -> None:
        offsets = {partition: self.stage.committable(partition) for partition in self.position}
        if not await self.stage.flush() or self.zombie:
            return
        for partition, offset in offsets.items():
            if offset is not None:
                self.world.committed[partition] = max(offset, self.world.committed[partition])


class World(RuleBasedStateMachine):
    rows: ClassVar[Counter[Row]] = Counter()  # the moves of runs in all examples

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loop = asyncio.new_event_loop()
        self.now = START
        self.logs: list[list[StoredRecord | None]] = [[] for _ in range(PARTITIONS)]  # None: a transaction's marker
        self.committed = [0] * PARTITIONS
        self.topics: dict[tuple[str, int], list[Any]] = {}
        self.generation = 0
        self.workers: list[Worker] = []
        self.runs = [a_run(number, self.rng) for number in range(10)]
        self.left = [deque(run) for run in self.runs]
        self.sent: list[tuple[int, Envelope]] = []
        self.patch = pytest.MonkeyPatch()
        self.moves = RunMoves(self.patch)
        self.patch.setattr(checkpoint_module, "read_state", self.read_state)
        clock = SimpleNamespace(monotonic=lambda: (self.now - START) / 1000)
        self.patch.setattr(commits_module, "time", clock)
        self.join(1)

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            self.drain()
            self.runs_move_by_the_table()
        finally:
            self.rows.update(self.moves.rows)
            self.patch.undo()
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()

    async def read_state(self, _: Settings, partitions: Mapping[int, int], __: object) -> dict[int, RestoredState]:
        await asyncio.sleep(0)
        answer = {partition: RestoredState() for partition in partitions}
        for partition, remembered in answer.items():
            for key, value, _headers in self.topics.get(("turnmill.state", partition), []):
                remembered.take(key, value)
        return answer

    # ---- how a worker's coroutines get on

    def drive(self, worker: Worker, work: Coroutine[Any, Any, None]) -> bool:
        """Run `work` while deliveries come in; False: the worker was killed in the middle of it."""

        async def until_done() -> bool:
            task = asyncio.ensure_future(work)
            for _ in range(20_000):
                for _ in range(4):
                    await asyncio.sleep(0)
                if task.done():
                    with contextlib.suppress(KafkaError):  # as the agent does: the batch is read again
                        task.result()
                    return True
                try:
                    worker.producer.deliver_one()
                except Cut:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    return False
            raise AssertionError("stuck")

        alive = self.loop.run_until_complete(until_done())
        if not alive:
            self.workers.remove(worker)
            self.rebalance()
        return alive

    def some(self, index: int) -> Worker:
        return self.workers[index % len(self.workers)]

    def rebalance(self) -> None:
        """All live workers get partitions anew; one that is stopped does not hear of it."""
        live = [worker for worker in self.workers if not worker.zombie]
        if not live:
            live = [Worker(self, self.rng.getrandbits(32))]
            self.workers += live
        self.generation += 1
        for worker in live:
            worker.stage.dropped()
        for place, worker in enumerate(live):
            mine = [p for p in range(PARTITIONS) if p % len(live) == place]
            if not self.drive(worker, worker.assign(mine, self.generation)):
                return

    @invariant()
    def runs_move_by_the_table(self) -> None:
        if hasattr(self, "moves"):
            self.moves.check()

    # ---- what happens

    @rule(count=st.integers(1, 8), trick=st.sampled_from(["", "", "", "again", "swap", "rebatch"]))
    def produce(self, count: int, trick: str) -> None:
        for _ in range(count):
            open_runs = [number for number, left in enumerate(self.left) if left]
            if not open_runs:
                return
            number = self.rng.choice(open_runs)
            self.append(number, self.left[number].popleft())
        if trick == "again" and self.sent:
            self.append(*self.rng.choice(self.sent))
        elif trick == "swap":
            for left in self.left:
                if len(left) > 1:
                    left[0], left[1] = left[1], left[0]
        elif trick == "rebatch" and self.sent:
            number, record = self.rng.choice(self.sent)
            cut = self.rng.randint(0, len(record["events"]))
            if record.get("end") is None and cut < len(record["events"]):
                moved = {
                    **record,
                    "seq": record["seq"] + cut,
                    "ts": record["ts"] + 100 * cut,
                    "events": record["events"][cut:],
                    "dt": [100 * n for n in range(len(record["events"]) - cut)],
                }
                self.append(number, moved)

    def append(self, number: int, record: Envelope) -> None:
        self.now += self.rng.randint(0, 60)
        log = self.logs[number % PARTITIONS]
        log.append(StoredRecord(encode(record), len(log), self.now, b"key"))
        self.sent.append((number, record))

    @rule(number=st.integers(0, PARTITIONS - 1))
    def end_a_transaction(self, number: int) -> None:
        self.logs[number].append(None)

    def batch(self, partition: int, start: int, most: int | None = None) -> Batch:
        found = self.logs[partition][start:][:most]
        records = [record for record in found if record is not None]
        return Batch(records, start, start + len(found))  # type: ignore[arg-type]  # has all that a stage reads

    @rule(who=st.integers(0, 3), most=st.integers(1, 12), hole=st.sampled_from([False, False, False, True]))
    def fetch(self, who: int, most: int, hole: bool) -> None:  # noqa: FBT001
        worker = self.some(who)
        for partition, position in list(worker.position.items()):
            batch = self.batch(partition, position, most)
            if not batch:
                continue
            worker.position[partition] = batch.end
            if hole and worker.dropped.get(partition, 0) < HOLE_READS - 1:
                worker.dropped[partition] = worker.dropped.get(partition, 0) + 1
                continue
            worker.dropped[partition] = 0
            if not self.drive(worker, worker.stage.process(partition, batch, worker.generation)):
                return

    @rule(who=st.integers(0, 3), ms=st.sampled_from([10, 100, 700, 700, 1500, 3000, 12_000]))
    def tick(self, who: int, ms: int) -> None:
        worker = self.some(who)
        self.now += 1
        if self.drive(worker, worker.stage.tick()):
            self.now += ms
            self.drive(worker, worker.stage.tick())

    @rule(who=st.integers(0, 3))
    def commit(self, who: int) -> None:
        worker = self.some(who)
        self.drive(worker, worker.commit())

    @rule(who=st.integers(0, 3), refuse=st.integers(0, 2), fail=st.integers(0, 3))
    def trouble(self, who: int, refuse: int, fail: int) -> None:
        producer = self.some(who).producer
        producer.refuse, producer.fail = refuse, fail

    @rule(who=st.integers(0, 3), after=st.integers(0, 12))
    def kill(self, who: int, after: int) -> None:
        """At one of its next deliveries."""
        self.some(who).producer.until_cut = after
        self.all_is_well(times=8)

    @rule(who=st.integers(0, 3))
    def kill_now(self, who: int) -> None:
        self.workers.remove(self.some(who))
        self.rebalance()

    @rule(who=st.integers(0, 3))
    def leave(self, who: int) -> None:
        """A last checkpoint, then the partitions are another's."""
        worker = self.some(who)
        if self.drive(worker, worker.stage.quiesce()) and self.drive(worker, worker.commit()):
            self.workers.remove(worker)
            self.rebalance()

    @rule(count=st.integers(1, 2))
    def join(self, count: int) -> None:
        if len(self.workers) < 4:
            self.workers += [Worker(self, self.rng.getrandbits(32)) for _ in range(count)]
            self.rebalance()

    @rule(who=st.integers(0, 3))
    def stall(self, who: int) -> None:
        """Stopped for longer than the session: another has its partitions, and it goes on all the same."""
        self.some(who).zombie = True
        self.rebalance()

    @rule(who=st.integers(0, 3))
    def wake(self, who: int) -> None:
        """It hears of it."""
        worker = self.some(who)
        if worker.zombie:
            worker.zombie = False
            worker.stage.dropped()
            self.rebalance()

    @rule(times=st.integers(3, 15))
    def all_is_well(self, times: int) -> None:
        """The usual course of things, so that what is unusual has something to interrupt."""
        for _ in range(times):
            who = self.rng.randrange(4)
            step = self.rng.choice([self.fetch, self.fetch, self.produce, self.tick, self.commit])
            if step == self.produce:
                self.produce(count=self.rng.randint(1, 6), trick=self.rng.choice(["", "again", "swap", "rebatch"]))
            elif step == self.fetch:
                self.fetch(who=who, most=self.rng.randint(1, 12), hole=self.rng.random() < 0.1)
            elif step == self.tick:
                self.tick(who=who, ms=self.rng.choice([10, 300, 700, 700, 3000]))
            else:
                self.commit(who=who)

    # ---- the end

    def drain(self) -> None:
        for number, left in enumerate(self.left):
            while left:
                self.append(number, left.popleft())
        self.workers = []
        self.rebalance()
        (worker,) = self.workers
        for partition in range(PARTITIONS):
            self.drive(worker, worker.stage.process(partition, self.tail(worker, partition), self.generation))
        for _ in range(3):
            self.now += DEADLINES
            self.drive(worker, worker.stage.tick())
        self.drive(worker, worker.commit())
        self.check()

    def tail(self, worker: Worker, partition: int) -> Batch:
        # One record that belongs to no run of ours, so that there is something to read.
        number = 1000 + partition
        end = envelope(0, text("end"), thread_id=f"6f1d6f5e-6f0a-4c0b-9d51-{number:012d}", end="complete")
        log = self.logs[partition]
        log.append(StoredRecord(encode(end), len(log), self.now, b"key"))
        log.append(None)
        return self.batch(partition, worker.position[partition])

    def read(self, topic: str) -> Iterator[Any]:
        for (name, _), records in self.topics.items():
            if name == f"turnmill.{topic}":
                yield from records

    def check(self) -> None:
        stored: dict[str, TurnRecord] = {}
        for _, value, _ in self.read("turns"):
            record = turn_record.decode(value)
            held = stored.get(record["turn_id"])
            if record["run_id"] != "r" and (held is None or rank(record) > rank(held)):
                stored[record["turn_id"]] = record
        right = {record["turn_id"]: record for run in self.runs for record in right_turns(run)}
        missing = [record["run_id"] for turn_id, record in right.items() if turn_id not in stored]
        spurious = [record["run_id"] for turn_id, record in stored.items() if turn_id not in right]
        assert (missing, spurious) == ([], [])
        for turn_id, record in right.items():
            assert said(stored[turn_id]) == said(record)
        assert [dict(headers)["turnmill.detail"] for *_, headers in self.read("dead-letters")] == []
        assert self.committed == [len(log) for log in self.logs]
        streamed = [telemetry.decode(value) for _, value, _ in self.read("telemetry")]
        assert {(t["run_id"], t["seq"]) for t in streamed if not t.get("derived")} == self.right_telemetry()

    def right_telemetry(self) -> set[tuple[str, int]]:
        found = set()
        for log in self.logs:
            partition = Partition(TOYS, LIMITS, 0)
            partition.feed([record for record in log if record is not None])
            found |= {(t["run_id"], t["seq"]) for t in partition.out.telemetry if not t.get("derived")}
        return found


def test_nothing_is_lost_and_nothing_is_spurious() -> None:
    options = settings(
        max_examples=150, stateful_step_count=40, suppress_health_check=list(HealthCheck), print_blob=True
    )
    run_state_machine_as_test(World, settings=options)
    unseen = {row for row in TRANSITIONS if row not in World.rows}
    assert {(state, event) for state, event in unseen if event not in NOT_HERE} <= SELDOM
