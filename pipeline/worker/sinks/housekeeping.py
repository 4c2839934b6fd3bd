"""The store role's background work, in steps: usage, search, expiry, audit, notices, costs.

Several workers may do the same at once, unless a class says otherwise.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar, Final

from aiokafka.errors import KafkaError

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.stores.accounts.audit import audit_between, audit_from, expire_audit
from pipeline.stores.archive.audit import HOUR_MS, AuditArchive
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.expiry import Expiry, lease_expiry
from pipeline.stores.outbound.notices import due_notices, notices_sent
from pipeline.stores.search.write import index_some
from pipeline.stores.usage.query import cost_since
from pipeline.stores.usage.summing import keep_sums, sum_up
from pipeline.turns.tokens import NANO
from topics import notice
from topics.catalog import FACTS, NOTICES, Topic
from topics.notice import NoticeRecord
from turnmill.clock import now_ms
from turnmill.errors import BrokerError
from turnmill.kafka.producer import KafkaProducer

# Seconds between two steps.
SUM_INTERVAL: Final = 5.0  # changes of the same sums in between are added together
SUM_MORE_INTERVAL: Final = 0.1  # if there is more to do
SUM_RETRY_DELAY: Final = 10.0  # after a failure
INDEX_INTERVAL: Final = 60.0  # if nothing was left; other store roles may have the other setting
INDEX_MORE_INTERVAL: Final = 0.6
INDEX_STEP_SECONDS: Final = 0.2  # the length of a step, some transactions; others write in the pause after it
AUDIT_INTERVAL: Final = 3600.0
AUDIT_MORE_INTERVAL: Final = 0.6
SPENT_INTERVAL: Final = 30.0
EXPIRY_PAUSE: Final = 0.1  # in which writers go on
EXPIRY_INTERVAL: Final = 600.0  # between two rounds
EXPIRY_RETRY_DELAY: Final = 60.0  # after a failure, or while another worker does it
NOTICES_INTERVAL: Final = 2.0
NOTICES_MORE_INTERVAL: Final = 0.1  # if there may be more
NOTICES_RETRY_DELAY: Final = 10.0  # after a failure

EXPIRY_TRANSACTIONS: Final = 5  # in a row, so that a backlog shrinks although ticks are rare
EXPIRY_LEASE_MS: Final = 900_000  # after which another worker takes over if this worker has died


log = logging.getLogger(__name__)

OpenStore = Callable[[], Awaitable[ThreadStore]]
Connect = Callable[[Topic], Awaitable[KafkaProducer]]  # for a topic
Clock = Callable[[], Awaitable[int]]  # epoch ms


class Housekeeper:
    """Background work in steps: one at a time, with pauses. A failed step is retried later, and delays no turns."""

    retry_delay: ClassVar[float]  # seconds after a failed step
    failed: ClassVar[str]  # what waits then, for the log

    def __init__(self, store: OpenStore) -> None:
        self._store = store
        self._next = 0.0
        self.under_way: asyncio.Task[None] | None = None

    def step(self) -> None:
        """Begin a step, if it is time to; called now and then."""
        idle = self.under_way is None or self.under_way.done()
        if idle and asyncio.get_running_loop().time() >= self._next:
            self.under_way = asyncio.create_task(self._run())

    async def _run(self) -> None:
        pause = self.retry_delay
        try:
            pause = await self._step()
        except StoreError as error:
            log.warning("%s: %s", self.failed, error)
        except Exception:
            log.exception(self.failed)
        if self.under_way is asyncio.current_task():
            self._next = asyncio.get_running_loop().time() + pause

    async def _step(self) -> float:
        """Do a step, and return the seconds until the next step."""
        raise NotImplementedError


class Summing(Housekeeper):
    """Keeps the sums of usage up to date: adds noted changes, and builds missing sums.

    `wanted`: whether there should be sums.
    """

    retry_delay = SUM_RETRY_DELAY
    failed = "the sums of usage wait to be kept up"  # no harm: readers add the waiting changes themselves

    def __init__(self, store: OpenStore, *, wanted: bool) -> None:
        super().__init__(store)
        self._wanted = wanted
        self._decided = False

    async def _step(self) -> float:
        store = await self._store()
        if not self._decided:
            await keep_sums(store, wanted=self._wanted)
            self._decided = True
        return SUM_MORE_INTERVAL if await sum_up(store) else SUM_INTERVAL


class SearchBackfill(Housekeeper):
    """Adds the words of turns that were stored with TURNMILL_SEARCH=off; with that setting, deletes all words."""

    retry_delay = INDEX_INTERVAL
    failed = "turns wait for their words to be searched"

    async def _step(self) -> float:
        loop = asyncio.get_running_loop()
        end, done = loop.time() + INDEX_STEP_SECONDS, 1
        store = await self._store()
        while done and loop.time() < end:
            done = await index_some(store)
        return INDEX_MORE_INTERVAL if done else INDEX_INTERVAL


class AuditKeeping(Housekeeper):
    """Copies audit entries to the archive, and deletes those older than TURNMILL_AUDIT_RETENTION; 0: all."""

    retry_delay = AUDIT_INTERVAL
    failed = "the audit log waits to be archived, and old entries to be deleted"

    def __init__(self, archive: AuditArchive | None, retention: float, store: OpenStore, clock: Clock) -> None:
        """`retention`: seconds."""
        super().__init__(store)
        self._clock = clock
        self._archive = archive
        self._since: int | None = None  # entries from this time on (epoch ms) may not be in the archive yet
        self._ms = int(retention * 1000)

    async def _step(self) -> float:
        store, now = await self._store(), await self._clock()
        if self._archive is not None:
            await self._copy(self._archive, store, now)
        if await expire_audit(store, now - self._ms):
            return AUDIT_MORE_INTERVAL
        if self._archive is not None:
            await self._archive.expire(now - self._ms)
        return AUDIT_INTERVAL

    async def _copy(self, archive: AuditArchive, store: ThreadStore, now: int) -> None:
        since = await archive.newest() if self._since is None else self._since
        while (at := await audit_from(store, since)) is not None:
            hour = at - at % HOUR_MS
            await archive.write(hour, partial(audit_between, store))
            since = self._since = hour + HOUR_MS
        self._since = now - now % HOUR_MS - HOUR_MS  # one hour back, since entries may have waited for the store


class Spending(Housekeeper):
    """Sets the metric of the last hour's cost, read from the store, which has all costs, also those before a restart.

    Each worker with a partition does so, and all read the same.
    """

    retry_delay = SPENT_INTERVAL
    failed = "what the last hour has cost is not known"

    def __init__(self, store: OpenStore, metrics: Metrics) -> None:
        super().__init__(store)
        self._metrics = metrics

    def stop(self) -> None:
        """Reset the metric, since without calls of `step` it would become wrong; the next `step` reads it again."""
        self.under_way, self._next = None, 0.0
        self._metrics.set(m.COST_LAST_HOUR, 0)

    async def _step(self) -> float:
        cost = await cost_since(await self._store(), now_ms() - HOUR_MS)
        if self.under_way is asyncio.current_task():
            self._metrics.set(m.COST_LAST_HOUR, cost / NANO)
        return SPENT_INTERVAL


class Expiring(Housekeeper):
    """Expires threads, in one worker at a time. `expiry`: of a store; None without a retention: it does nothing."""

    retry_delay = EXPIRY_RETRY_DELAY
    failed = "threads whose retention is over wait to expire"

    def __init__(
        self, expiry: Callable[[ThreadStore], Expiry] | None, store: OpenStore, metrics: Metrics, clock: Clock
    ) -> None:
        super().__init__(store)
        self._clock = clock
        self._expiry_of = expiry
        self._metrics = metrics
        self._holder = uuid.uuid4().hex
        self._expiry: Expiry | None = None

    def step(self) -> None:
        """Begin a step, if it is time to."""
        if self._expiry_of is not None:
            super().step()

    async def _step(self) -> float:
        assert self._expiry_of is not None  # else no step begins
        store = await self._store()
        self._expiry = self._expiry or self._expiry_of(store)
        now = await self._clock()
        if not await lease_expiry(store, self._holder, now, now + EXPIRY_LEASE_MS):
            return EXPIRY_RETRY_DELAY
        for _ in range(EXPIRY_TRANSACTIONS):
            gone, more = await self._expiry.step(now)
            self._metrics.add(m.EXPIRED_THREADS, gone.threads)
            self._metrics.add(m.EXPIRED_TURNS, gone.turns)
            self._metrics.add(m.EXPIRED_OBJECTS, gone.objects)
            self._metrics.add(m.EXPIRED_BYTES, gone.bytes)
            self._metrics.add(m.EXPIRED_ARCHIVED, gone.archived)
            if not more:
                return EXPIRY_INTERVAL
            await asyncio.sleep(EXPIRY_PAUSE)
        return 0.0


class Notifying(Housekeeper):
    """Sends notices in steps; several workers may do so at once, each with notices of its own."""

    retry_delay = NOTICES_RETRY_DELAY
    failed = "notices wait to be sent"

    def __init__(self, connect: Connect, store: OpenStore, metrics: Metrics) -> None:
        super().__init__(store)
        self._connect = connect
        self._metrics = metrics

    async def _step(self) -> float:
        store = await self._store()
        records = await due_notices(store, now_ms())
        if not records:
            return NOTICES_INTERVAL
        try:
            for topic in (NOTICES, FACTS):
                if some := [item for item in records if (item["type"] == notice.STORE_CHANGED) == (topic is FACTS)]:
                    await self._send(topic, some)
        except (BrokerError, KafkaError, OSError, TimeoutError) as error:  # the claim expires, and they are sent again
            log.warning("%d notices wait to be sent: %s", len(records), error)
            return NOTICES_RETRY_DELAY
        await notices_sent(store, [record["id"] for record in records], now_ms())
        for record in records:
            self._metrics.add(m.NOTICES, type=record["type"])
        return NOTICES_MORE_INTERVAL

    async def _send(self, topic: Topic, records: list[NoticeRecord]) -> None:
        """Send notices, and return once the topic has them. They are few, so the producer is made just for them."""
        producer = await self._connect(topic)
        try:
            sent = [await producer.send(notice.key_of(record), notice.encode(record), None) for record in records]
            await asyncio.gather(*sent)
        finally:
            await producer.close()
