"""The store role: turns -> the thread store, a transaction for all that came while the one before was under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from aiokafka import ConsumerRecord

from pipeline.assembly.records import Refused
from pipeline.errors import StoreError, UnstorableData
from pipeline.kafka.dead_letters import log_refused, outgoing_letter, without_value
from pipeline.kafka.outbox import Outbox, Outgoing, Producer
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.content import ContentStore
from pipeline.stores.sql import ThreadStore
from pipeline.worker.group_work import Group, GroupWork
from threadmill.errors import InvalidRecord, Reason
from topics import catalog, turn_record

PAUSE: Final = 0.5  # seconds before dead letters that were not delivered are sent again

Placed = tuple[int, ConsumerRecord]  # the partition, and a record of it


class TurnWriter:
    """Writes batches; the store is opened with the first one, and stays open."""

    def __init__(self, settings: Settings, metrics: Metrics, outbox: Outbox) -> None:
        self.settings = settings
        self.metrics = metrics
        self.outbox = outbox
        self.topic = catalog.TURNS.full_name(settings.topic_prefix)
        self.contents = ContentStore.of(settings)
        self.store: ThreadStore | None = None

    async def apply(self, group: Group) -> None:
        """Store a group. A record that nobody could store must not hold up the rest: a dead letter."""
        self.store = self.store or await ThreadStore.open(self.settings.store_url)
        records = [(partition, record) for partition, some in group for record in some]
        unstorable = await self._write(self.store, records)
        if unstorable:
            await self._bury(unstorable)
        self.metrics.add(m.RECORDS_READ, len(records), topic=self.topic)
        self.metrics.add(m.STORE_ROWS, len(records) - len(unstorable))

    async def _write(self, store: ThreadStore, records: Sequence[Placed]) -> list[tuple[int, Refused]]:
        """One transaction -> what can't be stored. Where a record breaks it, each half has its own, until that record
        is alone. Raises StoreError for a failure that is no record's.
        """
        try:
            result = await store.write([turn_record.decode(record.value) for _, record in records])
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, UnstorableData):
                self.metrics.add(m.STORE_FAILURES)
                raise
            if len(records) == 1:
                partition, record = records[0]
                return [(partition, _refused(record, error))]
            middle = len(records) // 2
            return [*await self._write(store, records[:middle]), *await self._write(store, records[middle:])]
        self.metrics.add(m.STORE_BATCHES)
        for thread_id in result.erased:  # what assembly has kept of it since, replayed perhaps
            await self.contents.delete_thread(thread_id)
        self.metrics.add(m.STORE_ERASED, len(result.erased))
        return []

    async def _bury(self, unstorable: Sequence[tuple[int, Refused]]) -> None:
        """Returns when the dead letters are delivered."""
        letters: deque[Outgoing] = deque()
        for partition, refused in unstorable:
            self.metrics.add(m.DEAD_LETTERS, reason=refused.reason.value)
            log_refused(self.topic, partition, refused)
            letters.append(outgoing_letter(self.settings.topic_prefix, self.topic, partition, refused))
        await self.outbox.send(letters)
        while True:
            if await self.outbox.flush():
                return
            await asyncio.sleep(PAUSE)


def _refused(record: ConsumerRecord, error: Exception) -> Refused:
    if isinstance(error, InvalidRecord):
        return Refused(record, error.reason, f"not a turn record: {error.detail}")
    detail = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
    return Refused(record, Reason.UNPROCESSABLE, f"can't be stored: {detail}")


def store_work(settings: Settings, metrics: Metrics, producer: Producer) -> GroupWork:
    """The work of this role."""
    return GroupWork("store", TurnWriter(settings, metrics, Outbox(producer, without_value)).apply, metrics)
