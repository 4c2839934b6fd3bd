"""A Kafka that is plain data: logs with retention, compaction and transactions' markers, and what clients ask of it.

It lives outside of all processes. What it does takes a random time, so anything may come before anything else, except
where Kafka promises an order: of one producer's records on one partition.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

from pipeline.kafka.outbox import Outgoing
from pipeline.worker.host.work import Batch
from tests.simulation.loop import START, Process, SimulatedLoop

FEWEST_BEHIND: Final = 4  # entries at the end of a log that compaction leaves alone: its active segment
TAKEN: Final = 40  # records of one produce request


@dataclass(frozen=True, slots=True)
class Entry:
    """A record as clients see it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


class Log:
    """One partition of a topic. None stands for what is no record: a marker, or what compaction took out."""

    def __init__(self) -> None:
        self.entries: list[Entry | None] = []
        self.begin = 0
        self.written: list[Entry] = []  # all that ever was in it

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return len(self.entries)

    def append(self, at: int, key: bytes | None, value: bytes | None, headers: Any) -> None:
        """A record at the end, with the broker's time."""
        entry = Entry(self.end, at, key, value, tuple(headers or ()))
        self.entries.append(entry)
        self.written.append(entry)

    def mark(self) -> None:
        """The marker at the end of a transaction."""
        self.entries.append(None)

    def read(self, start: int, most: int) -> Batch:
        """What one fetch brings."""
        start = max(start, self.begin)
        found = self.entries[start : start + most]
        return Batch([entry for entry in found if entry is not None], start, start + len(found))  # type: ignore[misc]

    def records(self) -> Iterator[Entry]:
        """Those that are there now."""
        return (entry for entry in self.entries[self.begin :] if entry is not None)

    def drop_before(self, offset: int) -> None:
        """Retention."""
        for at in range(self.begin, min(offset, self.end)):
            self.entries[at] = None
        self.begin = max(self.begin, min(offset, self.end))

    def compact(self, rng: random.Random) -> None:
        """Of each key the last one stays, as far as the cleaner got; tombstones of it go, or go later."""
        upto = max(self.begin, self.end - FEWEST_BEHIND)
        last = {entry.key: entry.offset for entry in self.records()}
        keep_tombstones = rng.random() < 0.5
        for at in range(self.begin, upto):
            entry = self.entries[at]
            if entry is None:
                continue
            if last[entry.key] != at or (entry.value is None and not keep_tombstones):
                self.entries[at] = None


@dataclass(slots=True)
class Weather:
    """How likely faults are, and how long the broker takes. Calm weather is what a schedule ends in."""

    slow: float = 0.02  # seconds that an answer takes on average
    full: bool = False  # no worker's producer takes anything
    refuse: float = 0.0  # a producer takes nothing
    lose: float = 0.0  # a produce request gets lost
    doubt: float = 0.0  # its answer gets lost: it was written all the same
    drop: float = 0.0  # a fetched batch is dropped on the way, as around a rebalance
    deny: float = 0.0  # a read of the state topic, or a commit, fails
    down_until: float = 0.0
    pace: float = 1.0  # seconds between two ticks of a stage


@dataclass(slots=True)
class Broker:
    """All topics and groups of a schedule."""

    loop: SimulatedLoop
    rng: random.Random
    partitions: int
    most_bytes: int
    trace: Callable[[str], None]
    weather: Weather = field(default_factory=Weather)
    logs: dict[tuple[str, int], Log] = field(default_factory=dict)
    waiting: dict[str, list[asyncio.Future[None]]] = field(default_factory=dict)  # fetches, by topic

    def append(self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Any = ()) -> None:
        """Write a record."""
        self.log(topic, partition).append(self.now, key, value, headers)
        for fetch in self.waiting.pop(topic.removeprefix("turnmill."), ()):
            over(fetch)

    def arrival(self, topic: str, seconds: float) -> asyncio.Future[None]:
        """A record of a topic comes, or the time is over."""
        fetch: asyncio.Future[None] = self.loop.create_future()
        self.waiting.setdefault(topic, []).append(fetch)
        timer = self.loop.call_later(seconds, over, fetch)
        fetch.add_done_callback(lambda _: timer.cancel())
        return fetch

    def log(self, topic: str, partition: int) -> Log:
        """A partition of a topic, by the topic's name without the prefix."""
        return self.logs.setdefault((topic.removeprefix("turnmill."), partition), Log())

    def topic(self, name: str) -> list[Log]:
        """All partitions."""
        return [self.log(name, partition) for partition in range(self.partitions)]

    @property
    def now(self) -> int:
        """The broker's time, epoch ms."""
        return int((START + self.loop.now) * 1000)

    @property
    def down(self) -> bool:
        """Whether nothing answers."""
        return self.loop.now < self.weather.down_until

    def delay(self) -> float:
        """How long the next answer takes: mostly short, at times long."""
        return self.rng.expovariate(1 / self.weather.slow) if self.rng.random() < 0.9 else 20 * self.weather.slow

    async def answer(self) -> None:
        """Wait for an answer. Raises KafkaError where there is none."""
        await asyncio.sleep(self.delay())
        if self.down or self.rng.random() < self.weather.deny:
            raise KafkaError("no answer")


class Queue:
    """One producer's records on their way, each partition's in order."""

    def __init__(self, broker: Broker, process: Process) -> None:
        self.broker = broker
        self.process = process
        self.waiting: dict[tuple[str, int], deque[tuple[asyncio.Future[Any], Sequence[Any]]]] = {}

    def send(self, topic: str, partition: int, records: Sequence[Any]) -> asyncio.Future[Any]:
        """(key, value, headers) each -> their delivery."""
        delivery = self.broker.loop.create_future()
        queue = self.waiting.setdefault((topic, partition), deque())
        queue.append((delivery, records))
        if len(queue) == 1:
            self._later(topic, partition)
        return delivery

    def _later(self, topic: str, partition: int) -> None:
        delay = max(self.broker.delay(), self.broker.weather.down_until - self.broker.loop.now)
        self.broker.loop.later_outside(delay, self._deliver, topic, partition)

    def _deliver(self, topic: str, partition: int) -> None:
        broker, queue = self.broker, self.waiting[topic, partition]
        if not self.process.alive and broker.rng.random() < 0.5:  # it had not left the process
            queue.clear()
            return
        delivery, records = queue.popleft()
        fate = broker.rng.random()
        lost, doubted = fate < broker.weather.lose, fate > 1 - broker.weather.doubt
        if not lost:
            for key, value, headers in records:
                broker.append(topic, partition, key, value, headers)
        if self.process.alive and not delivery.done():
            if lost or doubted:
                broker.trace(
                    f"{self.process.name}: {len(records)} to {topic}/{partition} {'lost' if lost else 'doubted'}"
                )
                delivery.set_exception(KafkaTimeoutError("no answer"))
            else:
                delivery.set_result(None)
        if queue:
            self._later(topic, partition)


class WorkerProducer:
    """See `pipeline.kafka.outbox.Producer`."""

    def __init__(self, broker: Broker, process: Process) -> None:
        self.broker = broker
        self.queue = Queue(broker, process)

    async def send_batch(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> tuple[int, asyncio.Future[Any]]:
        await asyncio.sleep(0)
        if self.broker.weather.full or self.broker.rng.random() < self.broker.weather.refuse:
            raise KafkaError("no room")
        sizes = [len(record.value or b"") for record in records[:TAKEN]]
        if sizes[0] > self.broker.most_bytes:
            raise MessageSizeTooLargeError(f"{sizes[0]} bytes")
        fitting = next((n for n, size in enumerate(sizes) if size > self.broker.most_bytes), len(sizes))
        taken = self.broker.rng.randint(1, fitting)
        batch = [(record.key, record.value, record.headers) for record in records[:taken]]
        return taken, self.queue.send(topic, partition, batch)


class AgentProducer:
    """What a publisher needs of aiokafka's producer."""

    def __init__(self, broker: Broker, process: Process) -> None:
        self.broker = broker
        self.queue = Queue(broker, process)

    async def send(self, topic: str, value: bytes, key: bytes, headers: Any = None) -> asyncio.Future[Any]:
        await asyncio.sleep(0)
        if self.broker.rng.random() < self.broker.weather.refuse:
            raise KafkaTimeoutError("no room")
        return self.queue.send(topic, place_of(key, self.broker.partitions), [(key, value, headers)])

    async def stop(self) -> None:
        """Nothing is open."""


def over(waited_for: asyncio.Future[None] | None) -> None:
    """It need not be waited for any longer."""
    if waited_for is not None and not waited_for.done():
        waited_for.set_result(None)


def place_of(key: bytes, partitions: int) -> int:
    """The partition of a key."""
    return sum(key) % partitions
