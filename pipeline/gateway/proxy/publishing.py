"""Publishing of the calls that pass the proxy, which never delays them, and the facts that other gateways publish.

These facts about conversations are read from the headers of the events topic, from `TURNMILL_GATEWAY_LIVE_WINDOW` ago
on. While the broker is away, the gateway knows only what it has seen itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aiokafka import TopicPartition

from pipeline.gateway.live.event_record import EventRecord
from pipeline.gateway.live.follower import Offsets, Past
from pipeline.gateway.proxy.client import NOT_FOLLOWED, Followed
from pipeline.stores.database.opened import Opened
from topics.catalog import EVENTS
from turnmill.capture.capture import Call, Capture
from turnmill.capture.conversations import ANSWERED_HEADER, Conversations, fact_of
from turnmill.capture.reading import Reading
from turnmill.pools import CAPTURES
from turnmill.publish.publisher import Publisher

if TYPE_CHECKING:  # where calls can be stopped
    from turnmill.control.receiver import Control
    from turnmill.control.record import Command

AGENT: Final = "proxy"  # the agent of calls that name none, if the caller has no name either
OPEN_TIMEOUT: Final = 1.0  # seconds for which the first requests wait for the publisher
STOPPED_TIMEOUT: Final = 10.0  # seconds for which a request waits if a stop of its run does
LOG_INTERVAL: Final = 60.0  # seconds between two log lines of the same content

log = logging.getLogger(__name__)


class Publishing:
    """The gateway's Capture, which is made when it is first needed."""

    def __init__(
        self,
        publisher: Callable[[], Awaitable[Publisher]],
        conversations: Conversations,
        control: Control | None = None,
    ) -> None:
        self._publisher = publisher
        self._control = control
        self._conversations = conversations
        self._capture = Opened(self._open)
        self._logged_at = -LOG_INTERVAL

    async def begin(self, call: Call, reading: Reading, tenant: str | None, stops: Sequence[Command]) -> Followed:
        """Begin to publish a call. If that fails, log it; the call is passed on all the same.

        `stops`: those that wait for a run of its id. With any, return when it is known whether the call is of that run.
        """
        try:
            async with asyncio.timeout(STOPPED_TIMEOUT if stops else OPEN_TIMEOUT):
                capture = await self._capture.get()
            if self._control is not None:
                for command in stops:
                    self._control.take(command)
            followed = capture.begin(replace(call, body=b""), reading, tenant=tenant)
            if stops:
                with suppress(TimeoutError):
                    async with asyncio.timeout(STOPPED_TIMEOUT):
                        await capture.read()
            return followed
        except Exception:  # the program's call must not fail for any fault of ours
            if time.monotonic() >= self._logged_at + LOG_INTERVAL:
                self._logged_at = time.monotonic()
                log.exception("calls are passed on, and are not published")
            return NOT_FOLLOWED

    async def close(self) -> None:
        """Publish the rest of the captured calls."""
        if self._capture.value is not None:
            await self._capture.value.close()

    async def _open(self) -> Capture:
        capture = Capture(
            await self._publisher(),
            self._conversations,
            agent_id=AGENT,
            queue_bytes=CAPTURES.size,
            shared=True,
            control=self._control,
        )
        return await capture.__aenter__()


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

    def take(self, partition: TopicPartition, records: Sequence[EventRecord], behind: int) -> None:
        """Learn the facts in records' headers. Their tenant is taken from the value, which access lists protect."""
        for record in records:
            if any(name == ANSWERED_HEADER for name, _ in record.headers) and (envelope := record.envelope) is not None:
                fact = fact_of(record.headers, envelope.get("tenant") or "")
                if fact is not None:
                    self._conversations.learn(fact)
