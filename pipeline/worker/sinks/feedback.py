"""The feedback role: writes feedback of people and programs to the thread store."""

from __future__ import annotations

from pipeline.assembly.records import Refused
from pipeline.kafka.dead_letters import without_value
from pipeline.kafka.outbox import Outbox, Producer
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.database.opened import Opened
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback
from pipeline.worker.host.group_work import Group, GroupWork
from pipeline.worker.sinks.burying import Burying, refusal
from pipeline.worker.webhooks.role import feedback_taking
from topics import catalog, feedback
from turnmill.errors import InvalidRecord


class FeedbackWriter:
    """Writes feedback; the store is opened at the first record, and stays open."""

    def __init__(self, settings: Settings, metrics: Metrics, outbox: Outbox) -> None:
        self._metrics = metrics
        self._topic = catalog.FEEDBACK.full_name(settings.topic_prefix)
        self._burying = Burying(settings, metrics, outbox, self._topic)
        self._store = Opened(lambda: ThreadStore.open(settings.store_url))
        self._webhooks = feedback_taking(settings, metrics) if settings.webhooks is not None else None

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
            await add_feedback(await self._store.get(), received)
            if self._webhooks is not None:
                await self._webhooks.tell(group)
        await self._burying.bury(refused)
        self._metrics.add(m.RECORDS_READ, len(received) + len(refused), topic=self._topic)


def feedback_work(settings: Settings, metrics: Metrics, producer: Producer) -> GroupWork:
    """Return the work of this role."""
    return GroupWork("feedback", FeedbackWriter(settings, metrics, Outbox(producer, without_value)).apply, metrics)
