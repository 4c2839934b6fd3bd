"""Sends queued deliveries: a few at once for each webhook, with back-off, until they are accepted or too old.

Each owner of webhooks has a share of the concurrent deliveries (`pipeline.policies.slots`), for all its webhooks.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final, Protocol

from aiokafka import TopicPartition

from pipeline.assembly.records import Refused
from pipeline.kafka.dead_letters import DeadLetterLog, outgoing_letter
from pipeline.kafka.outbox import Outbox, Outgoing
from pipeline.kafka.reading import record_at
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.observability.repeated_warning import RepeatedWarning
from pipeline.policies.pools import DELIVERIES, LETTERS
from pipeline.policies.slots import Slots
from pipeline.policies.webhooks import Webhook
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.outbound.deliveries import (
    WEBHOOK_CONCURRENCY,
    Delivery,
    Due,
    claim_deliveries,
    finish_delivery,
    retry_delivery,
    still_waits,
    waiting_deliveries,
)
from pipeline.worker.webhooks.sender import Sender
from turnmill.clock import now_ms
from turnmill.errors import BrokerError, Reason
from turnmill.settings import BrokerSettings
from turnmill.shares import Shares

POLL_INTERVAL: Final = 0.5  # seconds between two queries of an empty queue
OUTAGE_DELAY: Final = 5.0  # seconds after a failure of the store, or of the broker
FIRST_RETRY_MS: Final = 5_000  # until the second attempt; each further wait is four times as long, up to
MAX_RETRY_MS: Final = 7_200_000
COUNT_INTERVAL: Final = 15.0  # seconds
LETTER_CACHE_SIZE: Final = 1_000  # records whose dead letters are remembered

log = logging.getLogger(__name__)


def delay(attempts: int, jitter: float) -> int:
    """Return the ms until the next attempt after `attempts` failed ones; `jitter` from 0 to 1."""
    return int(min(FIRST_RETRY_MS * 4.0 ** min(attempts - 1, 10), MAX_RETRY_MS) * (0.8 + 0.4 * jitter))


class Known(Protocol):
    """A function that returns the webhooks; with `now`, the present ones of the store."""

    async def __call__(self, *, now: bool = False) -> Sequence[Webhook]: ...


class Deliverer:
    """Delivers to webhooks, in `run`, until `stop`; several workers may do so at once."""

    def __init__(
        self,
        brokers: BrokerSettings,
        store: Callable[[], Awaitable[ThreadStore]],
        known: Known,
        outbox: Outbox,
        metrics: Metrics,
        sender: Sender,
        *,
        within_ms: int,
    ) -> None:
        """`within_ms`: how long after its record a delivery is retried."""
        self._brokers = brokers
        self._store = store
        self._known = known
        self._outbox = outbox
        self._metrics = metrics
        self._sender = sender
        self._within = within_ms
        self._under_way: dict[asyncio.Task[None], Due] = {}
        self._shares = Shares()
        self._stopped = asyncio.Event()
        self._counted = 0.0
        self._warn = RepeatedWarning(log)
        self._buried: dict[str, DeadLetterLog] = {}
        self._burying = Slots(LETTERS.size)
        self._letters: OrderedDict[tuple[str, int, int], None] = OrderedDict()

    def stop(self) -> None:
        """Begin no new deliveries."""
        self._stopped.set()

    async def run(self) -> None:
        """Deliver until `stop`. Raises nothing; what fails is retried."""
        self._stopped = stopped = asyncio.Event()
        while not stopped.is_set():
            pause = POLL_INTERVAL
            try:
                if await self._begin():
                    pause = 0.0
                await self._count()
            except StoreError as error:
                self._warn("store", "webhooks wait for the store: %s", error)
                pause = OUTAGE_DELAY
            except Exception:
                log.exception("webhooks: looking at what waits failed")
                pause = OUTAGE_DELAY
            if self._under_way:
                full = len(self._under_way) >= DELIVERIES.size
                await asyncio.wait(
                    self._under_way, timeout=None if full else pause, return_when=asyncio.FIRST_COMPLETED
                )
            else:
                await asyncio.sleep(pause)
        self._metrics.set(m.WEBHOOKS_WAITING, 0)  # other workers report it

    async def _begin(self) -> bool:
        """Begin the due deliveries; return whether there were any."""
        store = await self._store()
        found = await claim_deliveries(store, now_ms(), self._chosen)
        known = {one.id: one for one in await self._known()} if found else {}
        if any(one.webhook not in known for one in found):  # it is new, or was deleted
            known = {one.id: one for one in await self._known(now=True)}
        for one in found:
            task = asyncio.create_task(self._deliver(store, known.get(one.webhook), one))
            self._under_way[task] = one.due
            self._shares.add(one.due.owner, 1)
            task.add_done_callback(self._ended)
        return bool(found)

    def _chosen(self, candidates: Sequence[Due]) -> list[int]:
        """Return the numbers of deliveries to begin: a webhook has at most WEBHOOK_CONCURRENCY, an owner its share."""
        counts = Counter(due.webhook for due in self._under_way.values())
        shares, found = self._shares.copy(), list[int]()
        for due in candidates:
            if counts[due.webhook] < WEBHOOK_CONCURRENCY and shares.allows(due.owner, 1, DELIVERIES.size):
                counts[due.webhook] += 1
                shares.add(due.owner, 1)
                found.append(due.seq)
        return found

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._shares.add(self._under_way.pop(task).owner, -1)

    async def _deliver(self, store: ThreadStore, webhook: Webhook | None, one: Delivery) -> None:
        try:
            if webhook is None:  # it was deleted
                await finish_delivery(store, one, now_ms())
                return
            if not await still_waits(store, one):  # its thread was erased
                return
            outcome = await self._sender.send(webhook, one.id, one.payload.encode())
            if outcome.taken:
                self._metrics.add(m.WEBHOOK_ATTEMPTS, outcome="delivered")
                await finish_delivery(store, one, now_ms())
                return
            due = now_ms() + delay(one.attempts + 1, random.random())  # noqa: S311  # jitter
            if outcome.final or due > one.at + self._within:
                if await still_waits(store, one):  # a dead letter would outlive the erasure
                    await self._bury(webhook, one, outcome.why)
                self._metrics.add(m.WEBHOOK_ATTEMPTS, outcome="given_up")
                await finish_delivery(store, one, now_ms())
                return
            self._metrics.add(m.WEBHOOK_ATTEMPTS, outcome="failed")
            what = "webhook %s at %s has not taken %s, which is tried again: %s"
            self._warn(webhook.id, what, webhook.id, webhook.host, one.id, outcome.why)
            await retry_delivery(store, one, due)
        except (StoreError, BrokerError) as error:  # the claim expires, and it is tried again
            self._warn("deliver", "a delivery is tried again: %s", error)
        except Exception:
            log.exception("webhooks: a delivery failed, and is tried again")

    async def _bury(self, webhook: Webhook, one: Delivery, why: str) -> None:
        """Send the dead letter of a delivery, and return once it is delivered.

        The first letter of a record contains it. Those of other webhooks only name its place, so that a record of 12 MB
        that a hundred webhooks refuse is kept once, and redriven once, which delivers it to all of them.
        """
        topic, partition, offset = one.place
        detail = f"webhook {webhook.id} at {webhook.host} has not taken {one.id} in {one.attempts + 1} attempts: {why}"
        async with self._burying.taken(webhook.owner):
            first = one.place not in self._letters
            self._letters[one.place] = None
            try:
                record = await self._record(*one.place) if first else _without_value(offset)
                refused = Refused(record, Reason.UNPROCESSABLE, detail)
                self._buried.setdefault(topic, DeadLetterLog(topic, self._metrics))(partition, refused)
                letter = outgoing_letter(self._brokers.topic_prefix, topic, partition, refused)
                await self._outbox.send(deque[Outgoing]([letter]))
                if not await self._outbox.flush():
                    raise BrokerError("the dead letter of an event was not taken yet")
            except BaseException:
                if first:
                    self._letters.pop(one.place, None)
                raise
        while len(self._letters) > LETTER_CACHE_SIZE:
            self._letters.popitem(last=False)

    async def _record(self, topic: str, partition: int, offset: int) -> Any:
        """Return the record; one without a value if retention has removed it."""
        record = await record_at(self._brokers, TopicPartition(topic, partition), offset)
        return _without_value(offset) if record is None else record

    async def _count(self) -> None:
        if time.monotonic() >= self._counted:
            self._counted = time.monotonic() + COUNT_INTERVAL
            counts = await waiting_deliveries(await self._store())
            self._metrics.set(m.WEBHOOKS_WAITING, sum(counts.values()))


def _without_value(offset: int) -> Any:
    return SimpleNamespace(offset=offset, key=None, value=b"", headers=())
