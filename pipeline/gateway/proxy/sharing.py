"""The facts that other gateways found out about conversations, from the headers of the events topic.

They are read from `TURNMILL_GATEWAY_LIVE_WINDOW` ago on. While the broker is away, the gateway knows only what it has
seen itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiokafka import TopicPartition

from pipeline.gateway.live.event_record import EventRecord
from pipeline.gateway.live.follower import Offsets, Past
from topics.catalog import EVENTS
from turnmill.capture.conversations import ANSWERED_HEADER, Conversations, fact_of


class Sharing:
    """Keeps the conversations of one gateway up to date with those of all others."""

    name = "the conversations of other gateways"
    topics = (EVENTS,)
    runs: Final = "none"

    def __init__(self, window: float, conversations: Conversations) -> None:
        """Prepare; `window`: seconds of records that are read first."""
        self._window = window
        self._conversations = conversations

    async def starts(self, past: Past) -> Offsets:
        """Return where the window begins."""
        return await past.since(self.topics, self._window)

    def take(self, place: TopicPartition, records: Sequence[EventRecord], behind: int) -> None:
        """Learn the facts in records' headers. Their tenant is taken from the value, which access lists protect."""
        for record in records:
            if any(name == ANSWERED_HEADER for name, _ in record.headers) and (envelope := record.envelope) is not None:
                fact = fact_of(record.headers, envelope.get("tenant") or "")
                if fact is not None:
                    self._conversations.learn(fact)
