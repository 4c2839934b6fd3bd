"""What other gateways have found out about conversations: read from the headers of the events topic as they write it.

It is read from `TURNMILL_GATEWAY_LIVE_WINDOW` ago on, without a group. While the broker is away, the gateway knows
what it has seen itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

from pipeline.kafka.following import follow_on
from pipeline.kafka.reading import bounds_of, follow, offsets_at, reader
from pipeline.settings import Settings
from topics.catalog import EVENTS
from turnmill.capture.conversations import Conversations
from turnmill.capture.shared_facts import HEADER, fact_of
from turnmill.ending import ended
from turnmill.envelope import decode
from turnmill.errors import InvalidRecord

AGAIN: Final = 5.0  # seconds after a failure
AT_ONCE: Final = 500  # records between two looks at what else is to be done

log = logging.getLogger(__name__)


class Sharing:
    """Keeps the conversations of one gateway up to date with those of all others."""

    def __init__(self, settings: Settings, conversations: Conversations) -> None:
        self._settings = settings
        self._conversations = conversations
        self._positions: dict[Any, int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._run(), name="shared-conversations")

    async def close(self) -> None:
        """Leave the broker."""
        if self._task is not None:
            await ended(self._task)

    async def _run(self) -> None:
        meanwhile = "what other gateways know of conversations is not read"
        await follow_on(self._follow, lambda trouble: None, pause=AGAIN, log=log, meanwhile=meanwhile)

    async def _follow(self) -> None:
        """Until the broker fails, or the topic has more partitions."""
        ends = {place: end for place, (_, end) in (await bounds_of(self._settings, EVENTS)).items()}
        async with reader(self._settings) as consumer:
            fresh = {place: end for place, end in ends.items() if place not in self._positions}
            since = int((time.time() - self._settings.gateway_live_window) * 1000)
            self._positions |= await offsets_at(consumer, since, fresh)
            starts = {place: self._positions[place] for place in ends}
            async for batch in follow(self._settings, consumer, [EVENTS], starts):
                for place, records in batch.items():
                    for number, record in enumerate(records, 1):
                        learn(self._conversations, record)
                        if number % AT_ONCE == 0:
                            await asyncio.sleep(0)
                    self._positions[place] = records[-1].offset + 1


def learn(conversations: Conversations, record: Any) -> None:
    """Take over what one record of the events topic tells. Whose it is stands in its value: access lists guard that."""
    if not any(name == HEADER for name, _ in record.headers):
        return
    try:
        envelope = decode(record.value)
    except InvalidRecord:
        return
    tenant = envelope.get("tenant") if isinstance(envelope, dict) else None
    fact = fact_of(record.headers, tenant if isinstance(tenant, str) else "")
    if fact is not None:
        conversations.learn(fact)
