"""One consumer, without a group, follows topics for everything that a gateway shows live.

It starts with the first listener. Each listener first reads its past with a separate consumer, and joins the follower
where that ends. After a failure the follower continues at its last offset, so listeners miss nothing.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, Literal, Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition

from pipeline.assembly.run_list import RunList
from pipeline.assembly.usual_silence import UsualSilence
from pipeline.gateway.live.event_record import EventRecord
from pipeline.gateway.state import Service
from pipeline.kafka.offsets import bounds
from pipeline.kafka.reading import MAX_OFFSET, bytes_of, follow, follow_on, offsets_since, portions, read, reader
from pipeline.policies.pools import LATE
from pipeline.settings import Settings
from topics.catalog import EVENTS, Topic
from turnmill.ending import ended
from turnmill.errors import BrokerError
from turnmill.remembered import Remembered

RETRY_DELAY: Final = 1.0  # seconds after a failure
RECORD_OBJECT_BYTES: Final = 600  # of memory, of a record beside its value
YIELD_RECORDS: Final = 300  # records, of at most YIELD_BYTES, between two yields to the event loop
YIELD_BYTES: Final = 262_144  # as lists in lists, they take ten milliseconds

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Past:
    """The means by which a listener finds its past; no other listener uses the consumer."""

    settings: Settings
    consumer: AIOKafkaConsumer

    async def since(self, topics: Collection[Topic], seconds: float, most: int = MAX_OFFSET) -> Offsets:
        """Return the first offsets of the last `seconds`, or of the last `most` records if that is later."""
        return await offsets_since(self.settings, self.consumer, topics, seconds, most)


class Listener(Protocol):
    """A part of the gateway that takes records.

    `runs`: how it uses the index of runs. "none"; "seen", to find the run of each record; "open", to know which runs
    are open as well: then its past, and no other listener's, opens runs in the index.
    """

    @property
    def name(self) -> str:
        """The reader's name in the log and in errors, in the plural."""

    @property
    def topics(self) -> Sequence[Topic]:
        """The topics that it needs."""

    @property
    def runs(self) -> Literal["none", "seen", "open"]:
        """How the reader uses the index of runs."""

    async def starts(self, past: Past) -> Offsets:
        """Reset, and return where its past begins in each partition of its topics. Raises the client's errors."""

    def take(self, partition: TopicPartition, records: Sequence[Any], behind: int) -> None:
        """Take the next records of a partition (of events: EventRecord); `behind`: the offset after the last one."""


class _Pauses:
    """Yields to the event loop behind each YIELD_RECORDS or YIELD_BYTES that were handed over.

    Not more often: at each yield, a query's thread may keep the GIL for long.
    """

    def __init__(self) -> None:
        self._since = 0.0  # 1 is as much as may be handed over at once

    async def after(self, records: Sequence[Any]) -> None:
        """Note that these records were handed over."""
        self._since += max(len(records) / YIELD_RECORDS, sum(map(bytes_of, records)) / YIELD_BYTES)
        if self._since >= 1:
            self._since = 0.0
            await asyncio.sleep(0)


Late = tuple[TopicPartition, Sequence[Any], int]


def _late_bytes(late: Late) -> int:
    return sum(RECORD_OBJECT_BYTES + bytes_of(record) for record in late[1])


@dataclass(slots=True, eq=False)
class _Membership:
    topics: frozenset[str]  # full names
    task: asyncio.Task[None] | None = None
    joined: asyncio.Event = field(default_factory=asyncio.Event)
    late: Remembered[int, Late] | None = None  # what comes while its past is read; None if that had no room


class Follower(Service):
    """Hands each record to all listeners that have joined; `runs` is the index of runs that they share.

    `trouble`: why the topics can't be read, None while they are; `lags`: unread records of each partition.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._members: dict[Listener, _Membership] = {}
        self._numbers = count()
        self._task: asyncio.Task[None] | None = None
        self._caught_up = asyncio.Event()
        self.positions: dict[TopicPartition, int] = {}
        self.lags: dict[TopicPartition, int] = {}
        self.runs = RunList(int(settings.reopen_window * 1000), UsualSilence())
        self.trouble: str | None = None

    def name_of(self, topic: Topic) -> str:
        """Return the topic's name on the broker."""
        return topic.full_name(self._settings.topic_prefix)

    def listen(self, listener: Listener) -> None:
        """Have a listener join, unless it has joined or is joining."""
        if self._task is None:
            meanwhile = "nothing that is live goes on"
            following = follow_on(self._follow, self._stopped, pause=RETRY_DELAY, log=log, meanwhile=meanwhile)
            self._task = asyncio.create_task(following, name="follower")
        if listener not in self._members:
            names = frozenset(map(self.name_of, listener.topics))
            member = self._members[listener] = _Membership(names)
            joining = partial(self._join, listener, member)
            meanwhile = f"{listener.name}: the past is not known"
            member.task = asyncio.create_task(
                follow_on(joining, self._failed, pause=RETRY_DELAY, log=log, meanwhile=meanwhile), name=listener.name
            )

    async def leave(self, listener: Listener) -> None:
        """Remove a listener: it is handed no more records."""
        member = self._members.pop(listener)
        if member.task is not None:
            await ended(member.task)

    def has_joined(self, listener: Listener) -> bool:
        """Return True if the listener has all records up to the follower's position, and the follower has caught up."""
        member = self._members.get(listener)
        return member is not None and member.joined.is_set() and self._caught_up.is_set()

    async def ready(self, listener: Listener, within: float, otherwise: str) -> None:
        """Have a listener join, and return once it has all records up to the end of its topics.

        Raises BrokerError after `within` seconds, with the broker's failure, or else with `otherwise`.
        """
        self.listen(listener)
        try:
            async with asyncio.timeout(within):
                await self._members[listener].joined.wait()
                await self._caught_up.wait()
        except TimeoutError:
            raise BrokerError(f"{listener.name} are not known yet: {self.trouble or otherwise}") from None

    async def close(self) -> None:
        """Stop all tasks, and disconnect."""
        tasks = [self._task, *(member.task for member in self._members.values())]
        await asyncio.gather(*(ended(task) for task in tasks if task is not None))

    def _stopped(self, trouble: str | None) -> None:
        self._failed(trouble)
        self._caught_up.clear()

    def _failed(self, trouble: str | None) -> None:
        self.trouble = trouble or self.trouble

    async def _join(self, listener: Listener, member: _Membership) -> None:
        """Hand a listener its past, then keep it joined until its task is cancelled. Raises BrokerError."""
        pauses, member.late = _Pauses(), None
        async with reader(self._settings, max_poll_records=YIELD_RECORDS) as consumer:
            at = await listener.starts(Past(self._settings, consumer))
            for partition, (_, end) in (await self._spans(listener.topics)).items():
                self.positions.setdefault(partition, end)  # the follower begins here
            while member.late is None:  # what came while it was read had no room, so it is read, too
                member.late = Remembered(LATE, _late_bytes)
                stops = {partition: max(start, self.positions[partition]) for partition, start in at.items()}
                spans = {partition: (start, stops[partition]) for partition, start in at.items()}
                async for partition, batch in read(consumer, spans):
                    for records in portions(batch, YIELD_RECORDS, YIELD_BYTES):
                        self._give([listener], partition, records, records[-1].offset + 1, past=listener.runs != "open")
                        await pauses.after(records)
                at = stops
        for partition, stop in at.items():
            listener.take(partition, (), stop)  # its last offsets may hold no records
        while member.late is not None and (late := member.late.first()) is not None:
            self._give([listener], *late, past=listener.runs != "open")
            await asyncio.sleep(0)
        if member.late is None:
            raise BrokerError(f"more came for {listener.name} than was read meanwhile")
        member.late = None
        member.joined.set()
        self.trouble = None
        await asyncio.Future()

    async def _follow(self) -> None:
        """Follow the topics that listeners need, until the broker fails."""
        async with reader(self._settings) as consumer:  # no poll limit: aiokafka fetches no more until all is polled
            while True:
                topics = self._topics()
                ends = await self._begin(topics)
                starts = {end: self.positions[end] for end in ends}
                async with aclosing(follow(self._settings, consumer, topics, starts)) as polls:
                    async for batches in polls:
                        await self._take(consumer, batches)
                        if ends and await self._reached(consumer, ends):
                            self.trouble = None
                            self._caught_up.set()
                        if self._topics() != topics:
                            break

    def _topics(self) -> list[Topic]:
        topics = {topic.name: topic for listener in self._members for topic in listener.topics}
        return [topics[name] for name in sorted(topics)]

    async def _spans(self, topics: Sequence[Topic]) -> Mapping[TopicPartition, tuple[int, int]]:
        spans = await bounds(self._settings, topics)
        if not spans:
            names = ", ".join(map(self.name_of, topics))
            raise BrokerError(f"{self._settings.brokers} has no topics {names}: `turnmill topics apply` creates them")
        return spans

    async def _begin(self, topics: Sequence[Topic]) -> dict[TopicPartition, int]:
        """Return the ends of these topics' partitions. A new partition of a known topic is read from its beginning."""
        spans, known = await self._spans(topics), {position.topic for position in self.positions}
        for partition, (begin, end) in spans.items():
            if partition not in self.positions:
                self.positions[partition] = begin if partition.topic in known else end
                for listener in self._joined(partition.topic):
                    listener.take(partition, (), self.positions[partition])
        return {partition: end for partition, (_, end) in spans.items()}

    async def _take(self, consumer: AIOKafkaConsumer, batches: Mapping[TopicPartition, list[Any]]) -> None:
        pauses = _Pauses()
        for partition, batch in batches.items():
            self.lags[partition] = (consumer.highwater(partition) or 0) - batch[-1].offset - 1
            for records in portions(batch, YIELD_RECORDS, YIELD_BYTES):
                behind = self.positions[partition] = records[-1].offset + 1
                listeners = self._joined(partition.topic)
                for member in self._members.values():
                    if (late := member.late) is not None and partition.topic in member.topics:
                        come = partition, records, behind
                        if late.has_bytes(behind, come):
                            late.put("", next(self._numbers), come)
                        else:
                            member.late = None
                past = not any(listener.runs == "open" for listener in listeners)
                self._give(listeners, partition, records, behind, past=past)
                await pauses.after(records)

    async def _reached(self, consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int]) -> bool:
        """Return True once each position has reached its end; remove reached partitions from `ends`."""
        for partition, end in list(ends.items()):
            # If no record is at the end, as after a transaction's marker, only the consumer knows that it got there.
            if self.positions[partition] < end <= await consumer.position(partition):
                self.positions[partition] = end
                for listener in self._joined(partition.topic):
                    listener.take(partition, (), end)
            if self.positions[partition] >= end:
                del ends[partition]
        return not ends

    def _joined(self, topic: str) -> list[Listener]:
        return [
            listener for listener, member in self._members.items() if member.joined.is_set() and topic in member.topics
        ]

    def _give(
        self,
        listeners: Iterable[Listener],
        partition: TopicPartition,
        records: Sequence[Any],
        behind: int,
        *,
        past: bool,
    ) -> None:
        """Hand records to listeners; `past`: they open no run in the index."""
        if partition.topic == self.name_of(EVENTS):
            records = [self._event_record(record) for record in records]
            if any(listener.runs != "none" for listener in self._members):
                for record in records:
                    if (envelope := record.envelope) is not None:
                        record.run = self.runs.take(envelope, record.offset, record.at, record.partition, past=past)
        for listener in listeners:
            listener.take(partition, records, behind)

    def _event_record(self, record: Any) -> EventRecord:
        """Return a record as it was read.

        If it is too large, it has no value here, and the worker makes a dead letter of it.
        """
        value = record.value if len(record.value or b"") <= self._settings.max_record_bytes else None
        return EventRecord(record.partition, record.offset, record.timestamp, value, record.headers)
