"""The store role: turns -> the thread store, a transaction for all that came while the one before was under way."""

from __future__ import annotations

from collections import deque

from aiokafka import ConsumerRecord

from pipeline.assembly.records import Refused
from pipeline.errors import StoreError
from pipeline.kafka.dead_letters import log_refused, outgoing_letter
from pipeline.kafka.outbox import Outbox, Producer
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.content import ContentStore
from pipeline.stores.sql import ThreadStore
from pipeline.worker.group_work import Group, GroupWork
from threadmill.errors import InvalidRecord, Reason
from topics import catalog, turn_record


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
        """One transaction. A record that nobody could store must not hold up the rest: a dead letter."""
        self.store = self.store or await ThreadStore.open(self.settings.store_url)
        records = [(partition, record) for partition, some in group for record in some]
        try:
            result = await self.store.write([turn_record.decode(record.value) for _, record in records])
            for thread_id in result.erased:  # what assembly has kept of it since, replayed perhaps
                await self.contents.delete_thread(thread_id)
        except StoreError:
            self.metrics.add(m.STORE_FAILURES)
            raise
        except Exception as error:  # not a turn record of ours: its shape is the trouble, not the store
            if len(records) > 1:
                for partition, record in records:
                    await self.apply([(partition, [record])])
                return
            await self._bury(*records[0], error)
        else:
            self.metrics.add(m.STORE_ERASED, len(result.erased))
        self.metrics.add(m.RECORDS_READ, len(records), topic=self.topic)
        self.metrics.add(m.STORE_BATCHES)
        self.metrics.add(m.STORE_ROWS, len(records))

    async def _bury(self, partition: int, record: ConsumerRecord, error: Exception) -> None:
        reason = error.reason if isinstance(error, InvalidRecord) else Reason.NOT_AN_ENVELOPE
        detail = error.detail if isinstance(error, InvalidRecord) else f"{type(error).__name__}: {error}"
        refused = Refused(record, reason, f"not a turn record: {detail}")
        self.metrics.add(m.DEAD_LETTERS, reason=reason.value)
        log_refused(self.topic, partition, refused)
        letter = outgoing_letter(self.settings.topic_prefix, self.topic, partition, refused)
        await self.outbox.send(deque([letter]))
        while not await self.outbox.flush():
            pass


def store_work(settings: Settings, metrics: Metrics, producer: Producer) -> GroupWork:
    """The work of this role."""
    return GroupWork("store", TurnWriter(settings, metrics, Outbox(producer)).apply, metrics)
