"""Sends what waits in the queue: a few at once for each webhook, with back-off, until it is taken or too old."""

from __future__ import annotations

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
from pipeline.errors import StoreError
from pipeline.kafka.dead_letters import DeadLetterLog, outgoing_letter
from pipeline.kafka.outbox import Outbox, Outgoing
from pipeline.kafka.reading import read, reader
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.observability.repeated_warning import RepeatedWarning
from pipeline.settings import Settings
from pipeline.stores.deliveries import Delivery
from pipeline.stores.sql import ThreadStore
from pipeline.webhooks import Webhook, networks
from pipeline.worker.webhook_sender import send
from turnmill.clock import now_ms
from turnmill.errors import BrokerError, Reason

LOOK: Final = 0.5  # seconds between two looks at an empty queue
AWAY: Final = 5.0  # seconds after a failure of the store, or of the broker
AT_ONCE: Final = 32  # deliveries under way in one worker
EACH: Final = 4  # of these to one webhook: one that is slow must leave room for others
FIRST_MS: Final = 5_000  # until the second attempt; then four times as long, up to
LONGEST_MS: Final = 7_200_000
COUNT_EVERY: Final = 15.0  # seconds

log = logging.getLogger(__name__)


def delay(attempts: int, jitter: float) -> int:
    """Ms until the next attempt, after so many that failed; `jitter` from 0 to 1."""
    return int(min(FIRST_MS * 4.0 ** min(attempts - 1, 10), LONGEST_MS) * (0.8 + 0.4 * jitter))


class Known(Protocol):
    """Which webhooks there are; with `now` as the store has them at this moment."""

    async def __call__(self, *, now: bool = False) -> Sequence[Webhook]: ...


class Deliverer:
    """`run` delivers until `stop`; several workers may do so at once."""

    def __init__(
        self,
        settings: Settings,
        store: Callable[[], Awaitable[ThreadStore]],
        known: Known,
        outbox: Outbox,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._store = store
        self._known = known
        self._outbox = outbox
        self._metrics = metrics
        self._allowed = networks(settings.webhooks_allow)
        self._within = int(settings.webhooks_within * 1000)
        self._under_way: dict[asyncio.Task[None], str] = {}
        self._stopped = asyncio.Event()
        self._counted = 0.0
        self._warn = RepeatedWarning(log)
        self._buried: dict[str, DeadLetterLog] = {}

    def stop(self) -> None:
        """Begin nothing new."""
        self._stopped.set()

    async def run(self) -> None:
        """Until `stop`. Raises nothing: what fails is looked at again."""
        self._stopped = stopped = asyncio.Event()
        while not stopped.is_set():
            pause = LOOK
            try:
                if await self._begin():
                    pause = 0.0
                await self._count()
            except StoreError as error:
                self._warn("store", "webhooks wait for the store: %s", error)
                pause = AWAY
            except Exception:
                log.exception("webhooks: looking at what waits failed")
                pause = AWAY
            if len(self._under_way) >= AT_ONCE:
                await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(pause)
        self._metrics.set(m.WEBHOOKS_WAITING, 0)  # other workers say it

    async def _begin(self) -> bool:
        """Begin with what is due -> whether something was."""
        store = await self._store()
        counts = Counter(self._under_way.values())
        full = [webhook for webhook, count in counts.items() if count >= EACH]
        found = await store.claim(now_ms(), AT_ONCE - len(self._under_way), EACH, full)
        known = {one.id: one for one in await self._known()} if found else {}
        if any(one.webhook not in known for one in found):  # it is new, or was deleted
            known = {one.id: one for one in await self._known(now=True)}
        for one in found:
            task = asyncio.create_task(self._deliver(store, known.get(one.webhook), one))
            self._under_way[task] = one.webhook
            task.add_done_callback(self._under_way.pop)
        return bool(found)

    async def _deliver(self, store: ThreadStore, webhook: Webhook | None, one: Delivery) -> None:
        try:
            if webhook is None:  # it was deleted
                await store.over(one, now_ms())
                return
            outcome = await send(webhook, one.id, one.payload.encode(), self._allowed)
            if outcome.taken:
                self._metrics.add(m.WEBHOOK_ATTEMPTS, outcome="delivered")
                await store.over(one, now_ms())
                return
            due = now_ms() + delay(one.attempts + 1, random.random())  # noqa: S311  # jitter
            if outcome.final or due > one.at + self._within:
                await self._bury(webhook, one, outcome.why)
                self._metrics.add(m.WEBHOOK_ATTEMPTS, outcome="given_up")
                await store.over(one, now_ms())
                return
            self._metrics.add(m.WEBHOOK_ATTEMPTS, outcome="failed")
            what = "webhook %s at %s has not taken %s, which is tried again: %s"
            self._warn(webhook.id, what, webhook.id, webhook.host, one.id, outcome.why)
            await store.again(one, due)
        except (StoreError, BrokerError) as error:  # the claim ends, and somebody tries again
            self._warn("deliver", "a delivery is tried again: %s", error)
        except Exception:
            log.exception("webhooks: a delivery failed, and is tried again")

    async def _bury(self, webhook: Webhook, one: Delivery, why: str) -> None:
        """Returns when the dead letter is delivered: the record that the event comes from, as it is on its topic."""
        topic, partition, offset = one.place
        record = await self._record(topic, partition, offset)
        detail = f"webhook {webhook.id} at {webhook.host} has not taken {one.id} in {one.attempts + 1} attempts: {why}"
        refused = Refused(record, Reason.UNPROCESSABLE, detail)
        self._metrics.add(m.DEAD_LETTERS, reason=refused.reason.value)
        self._buried.setdefault(topic, DeadLetterLog(topic))(partition, refused)
        letters: deque[Outgoing] = deque([outgoing_letter(self._settings.topic_prefix, topic, partition, refused)])
        await self._outbox.send(letters)
        if not await self._outbox.flush():
            raise BrokerError("the dead letter of an event was not taken yet")

    async def _record(self, topic: str, partition: int, offset: int) -> Any:
        """The record; one without a value where retention has removed it."""
        place = TopicPartition(topic, partition)
        async with reader(self._settings) as consumer:
            begins = await consumer.beginning_offsets([place])
            if begins[place] <= offset:
                async for _, records in read(consumer, {place: (offset, offset + 1)}):
                    return records[0]
        return SimpleNamespace(offset=offset, key=None, value=b"", headers=())

    async def _count(self) -> None:
        if time.monotonic() >= self._counted:
            self._counted = time.monotonic() + COUNT_EVERY
            counts = await (await self._store()).waiting_deliveries()
            self._metrics.set(m.WEBHOOKS_WAITING, sum(counts.values()))
