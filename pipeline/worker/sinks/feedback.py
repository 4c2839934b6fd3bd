"""The feedback role: writes feedback of people and programs to the thread store."""

from __future__ import annotations

from pipeline.assembly.records import Refused
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.stores.database.opened import Opened
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback
from pipeline.worker.host.group_work import Group
from pipeline.worker.sinks.burying import Burying, refusal
from pipeline.worker.webhooks.role import Taking
from topics import feedback
from turnmill.errors import InvalidRecord


class FeedbackWriter:
    """Writes feedback; the store is opened at the first record, and stays open."""

    def __init__(self, store: Opened[ThreadStore], webhooks: Taking | None, burying: Burying, metrics: Metrics) -> None:
        self._store = store
        self._webhooks = webhooks
        self._burying = burying
        self._metrics = metrics

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
        self._metrics.add(m.RECORDS_READ, len(received) + len(refused), topic=self._burying.topic)
