"""Sends queued deliveries: a few at once for each webhook, with back-off, until they are accepted or too old.

Each owner of webhooks has a share of the concurrent deliveries (`pipeline.policies.slots`), for all its webhooks.
"""

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final, Protocol

from aiokafka import TopicPartition

from pipeline.assembly.records import Refused
from pipeline.kafka.dead_letters import DeadLetterLog, outgoing_letter
from pipeline.kafka.outbox import Outbox, Outgoing
from pipeline.kafka.reading import record_at
from pipeline.observability import metrics as m
from pipeline.observability.logs import RepeatedWarning
from pipeline.observability.metrics import Metrics
from pipeline.policies.pools import BURIED, DELIVERIES, LETTERS
from pipeline.policies.slots import Slots
from pipeline.policies.webhooks import FORMS, Webhook
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.outbound import deliveries
from pipeline.worker.webhooks.sender import Sender
from turnmill.clock import now_ms
from turnmill.errors import BrokerError, Reason
from turnmill.remembered import Remembered
from turnmill.settings import BrokerSettings
from turnmill.shares import Shares

POLL_INTERVAL: Final = 0.5  # seconds between two queries of an empty queue
OUTAGE_DELAY: Final = 5.0  # seconds after a failure of the store, or of the broker
FIRST_RETRY_MS: Final = 5_000  # until the second attempt; each further wait is four times as long, up to
MAX_RETRY_MS: Final = 7_200_000
COUNT_INTERVAL: Final = 15.0  # seconds

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
        self._under_way: dict[asyncio.Task[None], deliveries.Due] = {}
        self._shares = Shares()
        self._stopped = asyncio.Event()
        self._counted = 0.0
        self._warn = RepeatedWarning(log)
        self._buried: dict[str, DeadLetterLog] = {}
        self._burying = Slots(LETTERS.size)
        self._letters: Remembered[tuple[str, int, int], bool] = Remembered(BURIED)

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
        claimed = await deliveries.claim_deliveries(store, now_ms(), self._chosen)
        known = {webhook.id: webhook for webhook in await self._known()} if claimed else {}
        if any(delivery.webhook not in known for delivery in claimed):  # it is new, or was deleted
            known = {webhook.id: webhook for webhook in await self._known(now=True)}
        for delivery in claimed:
            task = asyncio.create_task(self._deliver(store, known.get(delivery.webhook), delivery))
            self._under_way[task] = delivery.due
            self._shares.add(delivery.due.owner, 1)
            task.add_done_callback(self._ended)
        return bool(claimed)

    def _chosen(self, candidates: Sequence[deliveries.Due]) -> list[int]:
        """Return the numbers of deliveries to begin: a webhook has at most WEBHOOK_CONCURRENCY, an owner its share."""
        counts = Counter(due.webhook for due in self._under_way.values())
        shares, chosen = self._shares.copy(), list[int]()
        for due in candidates:
            if counts[due.webhook] < deliveries.WEBHOOK_CONCURRENCY and shares.allows(due.owner, 1, DELIVERIES.size):
                counts[due.webhook] += 1
                shares.add(due.owner, 1)
                chosen.append(due.seq)
        return chosen

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._shares.add(self._under_way.pop(task).owner, -1)

    async def _deliver(self, store: ThreadStore, webhook: Webhook | None, delivery: deliveries.Delivery) -> None:
        try:
            if webhook is None:  # it was deleted
                await deliveries.finish_delivery(store, delivery, now_ms())
                return
            if not await deliveries.still_waits(store, delivery):  # its thread was erased
                return
            outcome = await self._sender.send(webhook, delivery.id, FORMS[webhook.form](delivery.payload.encode()))
            if outcome.taken:
                self._metrics.add(m.WEBHOOK_ATTEMPTS, outcome="delivered")
                await deliveries.finish_delivery(store, delivery, now_ms())
                return
            due = now_ms() + delay(delivery.attempts + 1, random.random())  # noqa: S311  # jitter
            if outcome.final or due > delivery.at + self._within:
                if await deliveries.still_waits(store, delivery):  # a dead letter would outlive the erasure
                    await self._bury(webhook, delivery, outcome.why)
                self._metrics.add(m.WEBHOOK_ATTEMPTS, outcome="given_up")
                await deliveries.finish_delivery(store, delivery, now_ms())
                return
            self._metrics.add(m.WEBHOOK_ATTEMPTS, outcome="failed")
            what = "webhook %s at %s has not taken %s, which is tried again: %s"
            self._warn(webhook.id, what, webhook.id, webhook.host, delivery.id, outcome.why)
            await deliveries.retry_delivery(store, delivery, due)
        except (StoreError, BrokerError) as error:  # the claim expires, and it is tried again
            self._warn("deliver", "a delivery is tried again: %s", error)
        except Exception:
            log.exception("webhooks: a delivery failed, and is tried again")

    async def _bury(self, webhook: Webhook, delivery: deliveries.Delivery, why: str) -> None:
        """Send the dead letter of a delivery, and return once it is delivered.

        The first letter of a record contains it. Those of other webhooks only name its place, so that a record of 12 MB
        that a hundred webhooks refuse is kept once, and redriven once, which delivers it to all of them.
        """
        topic, partition, offset = delivery.place
        attempts = delivery.attempts + 1
        detail = f"webhook {webhook.id} at {webhook.host} has not taken {delivery.id} in {attempts} attempts: {why}"
        async with self._burying.taken(webhook.owner):
            first = self._letters.get(webhook.owner, delivery.place) is None
            self._letters.put(webhook.owner, delivery.place, value=True)
            try:
                record = await self._record(*delivery.place) if first else _without_value(offset)
                refused = Refused(record, Reason.UNPROCESSABLE, detail)
                self._buried.setdefault(topic, DeadLetterLog(topic, self._metrics))(partition, refused)
                letter = outgoing_letter(self._brokers.topic_prefix, topic, partition, refused)
                await self._outbox.send(deque[Outgoing]([letter]))
                if not await self._outbox.flush():
                    raise BrokerError("the dead letter of an event was not taken yet")
            except BaseException:
                if first:
                    self._letters.pop(webhook.owner, delivery.place)
                raise

    async def _record(self, topic: str, partition: int, offset: int) -> Any:
        """Return the record, without a value if retention has removed it."""
        record = await record_at(self._brokers, TopicPartition(topic, partition), offset)
        return _without_value(offset) if record is None else record

    async def _count(self) -> None:
        if time.monotonic() >= self._counted:
            self._counted = time.monotonic() + COUNT_INTERVAL
            counts = await deliveries.waiting_deliveries(await self._store())
            self._metrics.set(m.WEBHOOKS_WAITING, sum(counts.values()))


def _without_value(offset: int) -> Any:
    return SimpleNamespace(offset=offset, key=None, value=b"", headers=())
