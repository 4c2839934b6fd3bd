"""The shared state of the gateway's routes: settings, authentication, and the connections to broker and store.

Connections are made when they are first needed, so the gateway starts, and answers with the reason, while the broker
or the store is away.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request

from pipeline.gateway.access.authenticator import Authenticator
from pipeline.gateway.access.limits import AtOnce, Rate
from pipeline.gateway.access.token_memory import TokenMemory
from pipeline.gateway.aside import Aside
from pipeline.gateway.broker_status import BrokerStatus
from pipeline.gateway.budgets.memory import Budgets
from pipeline.gateway.dashboard.tail import Tail
from pipeline.gateway.intake.outage import Outage
from pipeline.gateway.intake.upload import Upload
from pipeline.gateway.live.follower import Follower
from pipeline.gateway.live.following import Live
from pipeline.gateway.live.run_watch import RunWatch
from pipeline.gateway.live.tail import EventTail
from pipeline.gateway.problems import Problem
from pipeline.gateway.serving.loop_watch import LoopWatch
from pipeline.gateway.store_counts import StoreCounts
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.policies.pools import READS, SEARCHES
from pipeline.policies.slots import Slots
from pipeline.settings import Settings
from pipeline.stores.accounts.audit_trail import AuditTrail
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.opened import Opened
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.outbound.notices import add_notices
from pipeline.stores.threads.reading import erased_among, find_threads
from topics.notice import NoticeRecord
from topics.thread_key import ThreadKey
from turnmill.control.record import TOPIC as CONTROL
from turnmill.publish.publisher import Publisher
from turnmill.wire.feedback_record import TOPIC as FEEDBACK

ERASED_TTL: Final = 5.0  # seconds for which the answer that a thread was not deleted is reused
ERASED_BATCH: Final = 500  # threads in one query of the store
ERASED_CACHE_SIZE: Final = 10_000  # threads that are remembered
NOTICE_KNOWN_MS: Final = 86_400_000  # within which other gateways may add the same notice
MAX_TENANTS_SHOWN: Final = 20  # in an error, of the tenants that have the thread


@dataclass(slots=True)
class Erasure:
    """Whether a thread was deleted, as far as the gateway knows.

    `asked`: when the store was last queried; `wanted`: when a reader last needed the answer (by time.monotonic()).
    """

    asked: float = -math.inf
    wanted: float = -math.inf
    erased: bool = False


class Erased:
    """The deleted threads, as far as live streams and figures need them.

    The store is queried for each every few seconds at most, together with all others that are soon due.
    """

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]]) -> None:
        self._store = store
        self._known: OrderedDict[ThreadKey, Erasure] = OrderedDict()  # longest since its query first

    async def among(self, threads: Sequence[ThreadKey]) -> set[ThreadKey]:
        """Return the deleted ones of these threads; while the store is away, those known so far."""
        now = time.monotonic()
        for one in threads:
            self._known.setdefault(one, Erasure()).wanted = now
        unsure = [one for one in threads if self._is_unsure(one, now - ERASED_TTL)]
        if unsure:
            unsure += self._soon_unsure(now, {*unsure})
            for one in unsure:  # set before the query: one of many readers asks, the others use what is known
                self._known[one].asked = now
                self._known.move_to_end(one)
            with suppress(StoreError):
                found = await erased_among(await self._store(), unsure)
                for one in found:
                    self._known.setdefault(one, Erasure(now, now)).erased = True
        erased = {one for one in threads if one in self._known and self._known[one].erased}
        while len(self._known) > ERASED_CACHE_SIZE:
            self._known.popitem(last=False)
        return erased

    def _is_unsure(self, thread: ThreadKey, late: float) -> bool:
        known = self._known[thread]
        return known.asked <= late and not known.erased  # a deletion is final

    def _soon_unsure(self, now: float, but: set[ThreadKey]) -> list[ThreadKey]:
        """Return other threads whose answer soon expires and is still wanted.

        Hundreds of readers, each with its own thread, would otherwise cause a hundred queries a second.
        """
        half = now - ERASED_TTL / 2
        found: list[ThreadKey] = []
        for thread, known in self._known.items():
            if known.asked > half or len(found) >= ERASED_BATCH:
                break
            if known.wanted > now - 2 * ERASED_TTL and not known.erased and thread not in but:
                found.append(thread)
        return found


class Gateway:
    """The app's one state: `request.app.state.gateway`."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the connections. Raises CallerError for settings that contradict each other or can't be read."""
        self.settings = settings
        self.authenticator = Authenticator(settings, TokenMemory(self.store))
        self.rate = Rate(settings.gateway_rate)
        self.at_once = AtOnce(settings.gateway_caller_requests)
        self.metrics = Metrics(settings.metric_series)
        self.trail = None
        if settings.audit_retention:
            self.trail = AuditTrail(self.store, self._count_lost, notify=settings.webhooks is not None)
        self.loop_watch = LoopWatch(self.metrics)
        self.aside = Aside()
        # Only URIs of our own content store are fetched: a stored URI must not make the gateway call inner services.
        self.broker_status = BrokerStatus()
        self.store_counts = StoreCounts(self.store)
        self.contents = ContentStore.of(settings, elsewhere=False)
        self.follower = Follower(settings)
        self.tail = EventTail(settings, self.follower, self.metrics)
        self.live = Live(self.tail, self.metrics)
        self._uploads = 0  # uploads in progress
        self.run_watch = RunWatch(settings, self.follower, self.metrics)
        self.figures = Tail(settings, self.follower, self.run_watch)
        self.erased = Erased(self.store)
        self.budgets = Budgets(settings.budget_list, self.store)
        self.outage = Outage(settings.spool_bytes)
        self.searching = Slots(SEARCHES.size)
        self.reading = Slots(READS.size)
        self._store = Opened(lambda: ThreadStore.open(settings.store_url))
        # Always to the brokers: if this environment names a gateway for agents, this one would publish to itself.
        to_brokers = settings.model_copy(update={"publish_url": None, "control": False})
        self._publisher = Opened(lambda: Publisher(to_brokers).__aenter__())
        self._feedback = Opened(lambda: Publisher(to_brokers, topic=FEEDBACK).__aenter__())
        self._control = Opened(lambda: Publisher(to_brokers, topic=CONTROL).__aenter__())

    async def store(self) -> ThreadStore:
        """Return the thread store. Raises StoreError."""
        return await self._store.get()

    async def publisher(self) -> Publisher:
        """Return the publisher that all uploads share. Raises BrokerError."""
        return await self._publisher.get()

    async def feedback_publisher(self) -> Publisher:
        """Return the publisher of feedback. Raises BrokerError."""
        return await self._feedback.get()

    async def control_publisher(self) -> Publisher:
        """Return the publisher of commands. Raises BrokerError."""
        return await self._control.get()

    async def notify(self, notice: NoticeRecord) -> None:
        """Add a notice to the store, unless it has it already. Raises StoreError."""
        await add_notices(await self.store(), [notice], keep_until=notice["at"] + NOTICE_KNOWN_MS)

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
        accepted = {} if upload.dialect is None else {upload.dialect.name: upload.accepted}
        self.count_events(accepted, upload.reasons)

    def count_events(self, accepted: Mapping[str, int], refused: Mapping[str, int]) -> None:
        """Count events that came over HTTP: those accepted by dialect, those refused by reason."""
        for dialect, count in accepted.items():
            self.metrics.add(m.UPLOADED_EVENTS, count, dialect=dialect)
        for reason, count in refused.items():
            self.metrics.add(m.REFUSED_EVENTS, count, reason=reason)

    def count_cut(self) -> None:
        """Count a live stream that was cut because its reader was too slow."""
        self.metrics.add(m.LIVE_CUT)

    def _count_lost(self, entries: int) -> None:
        self.metrics.add(m.AUDIT_LOST, entries)

    async def close(self) -> None:
        """Deliver the accepted records, and disconnect."""
        self.live.stop()
        self.loop_watch.stop()
        await self.budgets.stop()
        self.figures.close()
        await asyncio.gather(self.follower.close(), self.tail.close())
        for one in (self._publisher.value, self._feedback.value, self._control.value):
            if one is not None:
                await one.__aexit__(None, None, None)
        if self.trail is not None:
            await self.trail.close()
        await self.store_counts.close()
        if self._store.value is not None:
            await self._store.value.close()

    async def find(self, conversation_id: str, tenant: str | None) -> ThreadKey:
        """Return the stored thread that a caller of `tenant` means (None: any tenant, "": threads without a tenant).

        Raises StoreError, and Problem where no tenant or several tenants have such a thread.
        """
        found = only_one(conversation_id, await self.stored(conversation_id, tenant))
        if found is None:
            raise unknown_thread(conversation_id)
        return found

    async def stored(self, conversation_id: str, tenant: str | None) -> set[ThreadKey]:
        """Return the stored threads of this name; `tenant` None: of all tenants. Raises StoreError."""
        return set(await find_threads(await self.store(), conversation_id, tenant))


def only_one(conversation_id: str, found: Collection[ThreadKey]) -> ThreadKey | None:
    """Return the only thread found, None if none was. Raises Problem if several tenants have one."""
    if len(found) > 1:
        tenants = sorted(one.tenant or "" for one in found)[:MAX_TENANTS_SHOWN]
        raise Problem(
            "conflict",
            f"several tenants have a thread {conversation_id!r:.200}: say with `tenant` which one is meant, the empty "
            f"one for none: {', '.join(repr(tenant) for tenant in tenants):.1000}",
            tenants=tenants,
        )
    return next(iter(found), None)


def unknown_thread(conversation_id: str) -> Problem:
    """Return the problem of a thread that doesn't exist or is another tenant's; callers can't tell which."""
    return Problem(
        "unknown-thread", f"no thread {conversation_id!r:.200} is stored: GET /v1/threads lists those that are"
    )


def gateway_of(request: Request) -> Gateway:
    """Return the app's gateway."""
    gateway: Gateway = request.app.state.gateway
    return gateway


TheGateway = Annotated[Gateway, Depends(gateway_of)]
