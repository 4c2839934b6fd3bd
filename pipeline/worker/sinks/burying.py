"""Makes dead letters of records that a role can't store, before offsets past them are committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from aiokafka import ConsumerRecord

from pipeline.assembly.records import Refused
from pipeline.kafka.dead_letters import DeadLetterLog, outgoing_letter
from pipeline.kafka.outbox import Outbox
from pipeline.observability.metrics import Metrics
from topics.catalog import Topic
from turnmill.errors import Reason
from turnmill.wire.envelope import batch_refusal

RETRY_DELAY: Final = 0.5  # seconds before dead letters that were not delivered are sent again


def refusal(record: ConsumerRecord, reason: Reason, detail: str) -> Refused:
    """Return a record with the reason of its refusal; if it stands for a whole batch, with that of the batch."""
    batch = batch_refusal(record.headers)
    return Refused(record, reason, detail) if batch is None else Refused(record, Reason.TOO_LARGE, batch)


class Burying:
    """Sends the dead letters of one topic."""

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
