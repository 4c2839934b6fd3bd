"""The roles store and feedback: write to the thread store, in one transaction all records that came meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka import ConsumerRecord

from pipeline.assembly.records import Refused
from pipeline.kafka.dead_letters import DeadLetterLog, outgoing_letter
from pipeline.kafka.outbox import Outbox
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.policies.retention import Retention
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.errors import StoreError, UnstorableData
from pipeline.stores.database.opened import Opened
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback
from pipeline.stores.turns import write_turns
from pipeline.worker.host.group_work import Group, GroupWork
from pipeline.worker.sinks.housekeeping import Housekeeper, Spending
from pipeline.worker.webhooks.role import Taking
from topics import catalog, feedback, turn_record
from topics.catalog import Topic
from turnmill.clock import now_ms
from turnmill.errors import InvalidRecord, Reason
from turnmill.wire.envelope import batch_refusal

Placed = tuple[int, ConsumerRecord]  # (partition, record)
KEPT_MS: Final = catalog.TURNS.retention_ms * 2  # by then the broker has removed a record
RETRY_DELAY: Final = 0.5  # seconds before dead letters that were not delivered are sent again


@dataclass(frozen=True, slots=True)
class TurnWriter:
    """Writes batches; the store is opened at the first batch, or by a housekeeper, and stays open."""

    store: Opened[ThreadStore]
    contents: ContentStore
    retention: Retention
    burying: Burying
    metrics: Metrics

    async def apply(self, group: Group) -> None:
        """Store a group. A record that can't be stored becomes a dead letter, so that it does not block the rest."""
        store = await self.store.get()
        records = [(partition, record) for partition, some in group for record in some]
        refused = await self._write(store, records)
        await self.burying.bury(refused)
        self.metrics.add(m.RECORDS_READ, len(records), topic=self.burying.topic)
        self.metrics.add(m.STORE_ROWS, len(records) - len(refused))

    async def _write(self, store: ThreadStore, records: Sequence[Placed]) -> list[tuple[int, Refused]]:
        """Write in one transaction; return the records that can't be stored, and those that come too late.

        If a record makes it fail, each half gets its own, until that record is alone. Raises StoreError for a failure
        not caused by a record.
        """
        try:
            decoded = [turn_record.decode(record.value) for _, record in records]
            values = [record.value for _, record in records]
            result = await write_turns(
                store, decoded, self.retention, now_of(record.timestamp for _, record in records), values
            )
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, UnstorableData):
                self.metrics.add(m.STORE_FAILURES)
                raise
            if len(records) == 1:
                partition, record = records[0]
                return [(partition, _unstorable(record, error))]
            middle = len(records) // 2
            return [*await self._write(store, records[:middle]), *await self._write(store, records[middle:])]
        self.metrics.add(m.STORE_BATCHES)
        for key in result.erased:  # large values that assembly has stored since, perhaps in a replay
            await self.contents.delete_thread(key)
        self.metrics.add(m.STORE_ERASED, len(result.erased))
        self.metrics.add(m.STORE_EXPIRED, len(result.expired), role="store")
        self.metrics.add(m.COST_DIFFERENCES, result.differing)
        return [(records[index][0], _late(records[index][1])) for index in result.late]


def now_of(times: Iterable[int]) -> int:
    """Return this machine's time, or the newest of records' times by the broker if no topic keeps one for so long."""
    now, newest = now_ms(), max(times)
    return now if now - newest < KEPT_MS else newest


def _late(record: ConsumerRecord) -> Refused:
    """Return the refusal of a record whose run is stored without its events, but with others that it lacks."""
    thread_id = (record.key or b"").decode("utf-8", "replace")
    detail = (
        "the store has other events of this run, which the record lacks, and they may not shrink: "
        f"`turnmill replay --thread {thread_id}` joins both as long as the events topic has both"
    )
    return Refused(record, Reason.LATE_EVENT, detail)


def _unstorable(record: ConsumerRecord, error: Exception) -> Refused:
    if isinstance(error, InvalidRecord):
        return refusal(record, error.reason, f"not a turn record: {error.detail}")
    detail = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
    return refusal(record, Reason.UNPROCESSABLE, f"can't be stored: {detail}")


@dataclass(frozen=True, slots=True)
class FeedbackWriter:
    """Writes feedback of people and programs; the store is opened at the first record, and stays open."""

    store: Opened[ThreadStore]
    webhooks: Taking | None
    burying: Burying
    metrics: Metrics

    async def apply(self, group: Group) -> None:
        """Store a group; invalid feedback becomes a dead letter. Raises StoreError."""
        received: list[ReceivedFeedback] = []
        refused: list[tuple[int, Refused]] = []
        for partition, records in group:
            for record in records:
                try:
                    received.append(ReceivedFeedback(feedback.decode(record.value), record.timestamp, record.offset))
                except InvalidRecord as error:
                    refused.append((partition, refusal(record, error.reason, error.detail)))
        if received:
            await add_feedback(await self.store.get(), received)
            if self.webhooks is not None:
                await self.webhooks.tell(group)
        await self.burying.bury(refused)
        self.metrics.add(m.RECORDS_READ, len(received) + len(refused), topic=self.burying.topic)


class StoreWork(GroupWork):
    """Writes turns; in between, its housekeepers do one step each. `spending` is one of them."""

    def __init__(self, writer: TurnWriter, housekeepers: Sequence[Housekeeper], spending: Spending) -> None:
        super().__init__("store", writer.apply, writer.metrics)
        self.housekeepers = housekeepers
        self.spending = spending

    def drop(self) -> None:
        """Stop reporting costs, which other workers report now, as this one has no partition any more."""
        super().drop()
        self.spending.stop()

    async def tick(self, partition: int, idle_ms: int) -> None:
        """Begin a step of each housekeeper; the partition does not matter."""
        for housekeeper in self.housekeepers:
            housekeeper.step()


def refusal(record: ConsumerRecord, reason: Reason, detail: str) -> Refused:
    """Return a record with the reason of its refusal; if it stands for a whole batch, with that of the batch."""
    batch = batch_refusal(record.headers)
    return Refused(record, reason, detail) if batch is None else Refused(record, Reason.TOO_LARGE, batch)


class Burying:
    """Sends the dead letters of a topic."""

    def __init__(self, prefix: str, topic: Topic, metrics: Metrics, outbox: Outbox) -> None:
        """`prefix`: that of all topics; `self.topic` is the full name."""
        self.topic = topic.full_name(prefix)
        self._prefix = prefix
        self._outbox = outbox
        self._log = DeadLetterLog(self.topic, metrics)

    async def bury(self, letters: Sequence[tuple[int, Refused]]) -> None:
        """Send dead letters, each given with its partition; return once they are delivered."""
        if not letters:
            return
        for partition, refused in letters:
            self._log(partition, refused)
        await self._outbox.send(deque(outgoing_letter(self._prefix, self.topic, *letter) for letter in letters))
        while True:
            if await self._outbox.flush():
                return
            await asyncio.sleep(RETRY_DELAY)
