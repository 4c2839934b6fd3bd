"""What the gateway's routes share: settings, authentication, and the connections to broker and store.

Connections are made when they are first needed, so the gateway starts, and answers with the reason, while the broker
or the store is away.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Final, Generic, TypeVar

from fastapi import Depends, Request

from pipeline.errors import StoreError, ThreadmillError
from pipeline.gateway.broker_status import BrokerStatus
from pipeline.gateway.dashboard.tail import Tail
from pipeline.gateway.limits import AtOnce, Rate
from pipeline.gateway.live.following import Live
from pipeline.gateway.live.tail import EventTail
from pipeline.gateway.problems import Problem
from pipeline.gateway.security import Authenticator
from pipeline.gateway.upload import Upload
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.content import ContentStore
from pipeline.stores.sql import ThreadStore
from threadmill.publisher import Publisher

AGAIN: Final = 1.0  # seconds after a failure before the next attempt to connect
ERASED_HOLDS: Final = 5.0  # seconds for which it is believed that a thread was not deleted
ERASED_KNOWN: Final = 10_000  # threads

T = TypeVar("T")


class Opened(Generic[T]):
    """A connection that the first caller makes. Callers within AGAIN seconds after a failure get the same error."""

    def __init__(self, connect: Callable[[], Awaitable[T]]) -> None:
        self._connect = connect
        self._lock = asyncio.Lock()
        self._failure: tuple[ThreadmillError, float] | None = None
        self.value: T | None = None

    async def get(self) -> T:
        """-> the connection. Raises the error of connecting."""
        if self.value is not None:
            return self.value
        async with self._lock:
            if self.value is None:
                if self._failure is not None and time.monotonic() < self._failure[1]:
                    raise self._failure[0].with_traceback(None)
                try:
                    self.value = await self._connect()
                except ThreadmillError as error:
                    self._failure = (error, time.monotonic() + AGAIN)
                    raise
            return self.value


class Owners:
    """The tenants of threads that were uploaded here, so that not every upload asks the store."""

    def __init__(self, most: int = 10_000) -> None:
        self._tenants: OrderedDict[str, str | None] = OrderedDict()
        self._most = most

    def knows(self, thread_id: str) -> bool:
        """Whether an upload to this thread was accepted here."""
        return thread_id in self._tenants

    def get(self, thread_id: str) -> str | None:
        """-> the thread's tenant; None where it has none or is not known."""
        return self._tenants.get(thread_id)

    def put(self, thread_id: str, tenant: str | None) -> None:
        """Remember a thread's tenant; beyond `most` threads, forget the oldest."""
        self._tenants[thread_id] = tenant
        if len(self._tenants) > self._most:
            self._tenants.popitem(last=False)


class Erased:
    """Which threads were deleted, as far as live figures need it: each is asked for every few seconds at most."""

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]]) -> None:
        self._store = store
        self._known: OrderedDict[str, tuple[float, bool]] = OrderedDict()  # thread -> when it was asked for, whether

    async def among(self, thread_ids: Sequence[str]) -> set[str]:
        """Those of these that were deleted; while the store is away, those of which that is known."""
        late = time.monotonic() - ERASED_HOLDS
        unsure = [one for one in thread_ids if self._asked(one) <= late]
        if unsure:
            with suppress(StoreError):
                found = await (await self._store()).erased(unsure)
                for one in unsure:
                    self._known.pop(one, None)
                    self._known[one] = time.monotonic(), one in found
            while len(self._known) > ERASED_KNOWN:
                self._known.popitem(last=False)
        return {one for one in thread_ids if self._known.get(one, (0.0, False))[1]}

    def _asked(self, thread_id: str) -> float:
        asked, erased = self._known.get(thread_id, (-math.inf, False))
        return math.inf if erased else asked  # it stays so


class Gateway:
    """The app's one state: `request.app.state.gateway`."""

    def __init__(self, settings: Settings) -> None:
        """Raises CallerError for settings that contradict each other or can't be read."""
        self.settings = settings
        self.authenticator = Authenticator(settings)
        self.rate = Rate(settings.gateway_rate)
        self.at_once = AtOnce(settings.gateway_caller_requests)
        self.metrics = Metrics(settings.metric_series)
        # Only URIs of our own content store are fetched: a stored URI must not make the gateway call inner services.
        self.broker_status = BrokerStatus()
        self.contents = ContentStore.of(settings, elsewhere=False)
        self.owners = Owners()
        self.tail = EventTail(settings, self.metrics)
        self.live = Live(self.tail, self.metrics)
        self._uploads = 0  # uploads in progress
        self.figures = Tail(settings)
        self.erased = Erased(self.store)
        self._store = Opened(lambda: ThreadStore.open(settings.store_url))
        self._publisher = Opened(lambda: Publisher(settings).__aenter__())

    async def store(self) -> ThreadStore:
        """The thread store. Raises StoreError."""
        return await self._store.get()

    async def publisher(self) -> Publisher:
        """The publisher that all uploads share. Raises BrokerError."""
        return await self._publisher.get()

    @contextmanager
    def coming_in(self) -> Iterator[None]:
        """Count an upload as in progress during the block."""
        self._uploads += 1
        self.metrics.set(m.UPLOADS, self._uploads)
        try:
            yield
        finally:
            self._uploads -= 1
            self.metrics.set(m.UPLOADS, self._uploads)

    def count_upload(self, upload: Upload) -> None:
        """Count an upload's accepted and refused events."""
        if upload.dialect is not None:
            self.metrics.add(m.UPLOADED_EVENTS, upload.accepted, dialect=upload.dialect.name)
        for reason, count in upload.reasons.items():
            self.metrics.add(m.REFUSED_EVENTS, count, reason=reason)

    def count_cut(self) -> None:
        """Count a live stream that was cut because its reader was too slow."""
        self.metrics.add(m.LIVE_CUT)

    async def close(self) -> None:
        """Deliver the accepted records, and disconnect."""
        self.live.stop()
        await self.tail.close()
        await self.figures.close()
        if self._publisher.value is not None:
            await self._publisher.value.__aexit__(None, None, None)
        if self._store.value is not None:
            await self._store.value.close()

    async def find(self, conversation_id: str, tenant: str | None) -> str:
        """-> the id of a stored thread that a caller of `tenant` (None: all) may reach. Raises Problem, StoreError."""
        found = await (await self.store()).find(conversation_id, tenant=tenant)
        if found is None:
            raise unknown_thread(conversation_id)
        return found


def unknown_thread(conversation_id: str) -> Problem:
    """The thread does not exist, or is another tenant's: callers can't tell the two apart."""
    return Problem(
        "unknown-thread", f"no thread {conversation_id!r:.200} is stored: GET /v1/threads lists those that are"
    )


def gateway_of(request: Request) -> Gateway:
    """-> the app's gateway."""
    gateway: Gateway = request.app.state.gateway
    return gateway


TheGateway = Annotated[Gateway, Depends(gateway_of)]
