"""The roles of webhooks: records become deliveries in the store, which are sent from there.

The offsets of a batch are committed once the store has its deliveries. Sending is separate: a receiver that is slow or
away delays no topic, no other receiver, and none of its own threads except the one that waits.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from aiokafka import ConsumerRecord

from pipeline.kafka.dead_letters import without_value
from pipeline.kafka.outbox import Outbox, Producer
from pipeline.observability import metrics as m
from pipeline.observability.logs import RepeatedWarning
from pipeline.observability.metrics import Metrics
from pipeline.policies.webhooks import (
    FEEDBACK_GIVEN,
    TURN_COMPLETED,
    TURN_INTERRUPTED,
    Event,
    Webhook,
    body,
    lane_of,
    networks,
)
from pipeline.settings import Settings
from pipeline.stores.database.keys import key_of
from pipeline.stores.database.opened import Opened
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.outbound.deliveries import all_webhooks, enqueue
from pipeline.turns.times import iso
from pipeline.worker.host.group_work import Group, GroupWork
from pipeline.worker.webhooks.delivery import Deliverer
from pipeline.worker.webhooks.sender import Sender
from topics import catalog, feedback, json_text, notice, turn_record
from topics.feedback import FeedbackRecord
from topics.notice import NoticeRecord
from topics.thread_key import ThreadKey
from topics.turn_record import LABELS, TurnRecord
from turnmill.clock import now_ms
from turnmill.errors import InvalidRecord

WEBHOOKS_TTL = 5.0  # seconds for which the list of webhooks is reused for deliveries

MALFORMED: Final = (InvalidRecord, KeyError, TypeError, ValueError, AttributeError)  # for records of other programs

log = logging.getLogger(__name__)

Read = Callable[[ConsumerRecord, tuple[str, int, int]], Event | None]
MAX_TURN_BYTES: Final = 65_536  # larger turns are not included in their events
NAMED: Final = ("tenant", "thread_id", "run_id", "turn_id", "agent_id", "dialect", "status", "revision", "events")


class Webhooks:
    """The webhooks of the settings, and those set up by the API."""

    def __init__(self, fixed: Sequence[Webhook], store: Opened[ThreadStore]) -> None:
        self._fixed = fixed
        self._known: tuple[Webhook, ...] = ()
        self._until = 0.0
        self.store = store

    async def known(self, *, now: bool = False) -> tuple[Webhook, ...]:
        """Return all webhooks; with `now`, the present ones of the store. Raises StoreError."""
        if now or time.monotonic() >= self._until:
            self._known = (*self._fixed, *await all_webhooks(await self.store.get(), now_ms()))
            self._until = time.monotonic() + WEBHOOKS_TTL
        return self._known


@dataclass(frozen=True, slots=True)
class Taking:
    """Puts the events of a group into the queue."""

    webhooks: Webhooks
    topic: str
    read: Read
    metrics: Metrics
    warn: RepeatedWarning = field(default_factory=partial(RepeatedWarning, log))

    async def apply(self, group: Group) -> None:
        """Add the deliveries of a group to the store, and count its records. Raises StoreError."""
        await self.tell(group)
        self.metrics.add(m.RECORDS_READ, sum(len(records) for _, records in group), topic=self.topic)

    async def tell(self, group: Group) -> None:
        """Add the deliveries of a group to the store. Raises StoreError."""
        known = await self.webhooks.known(now=True)  # so that a new webhook gets all events from now on
        wanted: list[tuple[str, Event]] = []
        for partition, records in group:
            for record in records if known else ():
                event = self._event(record, (self.topic, partition, record.offset))
                wanted += [(webhook.id, event) for webhook in known if event is not None and webhook.hears(event)]
        await enqueue(await self.webhooks.store.get(), wanted, now_ms())

    def _event(self, record: ConsumerRecord, position: tuple[str, int, int]) -> Event | None:
        try:
            return self.read(record, position)
        except MALFORMED as error:  # for malformed turns, the store role makes a dead letter
            self.warn("unreadable", "%s/%d@%d can't be read, so no webhook receives it: %r", *position, error)
            return None


class DeliveringWork(GroupWork):
    """Takes turns, and sends the waiting deliveries of all topics."""

    def __init__(
        self, name: str, apply: Callable[[Group], Awaitable[None]], metrics: Metrics, deliverer: Deliverer
    ) -> None:
        super().__init__(name, apply, metrics)
        self._deliverer = deliverer
        self._delivering: asyncio.Task[None] | None = None

    async def tick(self, partition: int, idle_ms: int) -> None:
        """Deliver while the worker has a partition."""
        if self._delivering is None or self._delivering.done():
            self._delivering = asyncio.create_task(self._deliverer.run())

    def drop(self) -> None:
        """Stop: deliveries under way may end; claimed ones that have not begun are free for others in a minute."""
        super().drop()
        if self._delivering is not None:
            self._deliverer.stop()
            self._delivering = None


def _webhooks(settings: Settings) -> Webhooks:
    return Webhooks(settings.webhook_list, Opened(partial(ThreadStore.open, settings.store_url)))


def turns_work(settings: Settings, metrics: Metrics, producer: Producer) -> DeliveringWork:
    """Return the work of the role `webhooks`."""
    webhooks = _webhooks(settings)
    taking = Taking(webhooks, catalog.TURNS.full_name(settings.topic_prefix), _turn, metrics)
    outbox, sender = Outbox(producer, without_value), Sender(networks(settings.webhooks_allow))
    within_ms = int(settings.webhooks_within * 1000)
    stored = webhooks.store.get, webhooks.known
    deliverer = Deliverer(settings, *stored, outbox, metrics, sender, within_ms=within_ms)
    return DeliveringWork("webhooks", taking.apply, metrics, deliverer)


def notices_work(settings: Settings, metrics: Metrics, producer: Producer) -> GroupWork:
    """Return the work of the role `notices`."""
    topic = catalog.NOTICES.full_name(settings.topic_prefix)
    taking = Taking(_webhooks(settings), topic, _notice, metrics)
    return GroupWork("notices", taking.apply, metrics)


def feedback_taking(settings: Settings, metrics: Metrics) -> Taking:
    """Return the part that queues events of feedback, used by the role that stores feedback."""
    within, topic = settings.webhooks_within * 1000, catalog.FEEDBACK.full_name(settings.topic_prefix)

    def event(record: ConsumerRecord, position: tuple[str, int, int]) -> Event | None:
        late = now_ms() - record.timestamp > within  # records of a topic that is read again are not sent
        return None if late else feedback_event(feedback.decode(record.value), position, record.timestamp)

    return Taking(_webhooks(settings), topic, event, metrics)


def _turn(record: ConsumerRecord, position: tuple[str, int, int]) -> Event | None:
    return turn_event(turn_record.decode(record.value), position, record.timestamp)


def _notice(record: ConsumerRecord, position: tuple[str, int, int]) -> Event:
    return notice_event(notice.decode(record.value), position, record.timestamp)


def turn_event(record: TurnRecord, position: tuple[str, int, int], at: int) -> Event | None:
    """Return the event of a turn that ended; None for a record that only states facts, or is imported.

    `at`: the broker's time of the record, epoch ms.
    """
    if record["turn"] is None or record.get("imported"):
        return None
    kind = TURN_COMPLETED if record["status"] == "complete" else TURN_INTERRUPTED
    data: dict[str, Any] = {name: record[name] for name in NAMED if record.get(name) is not None}
    told = {"external_id": "external_id", LABELS: "labels"}
    data |= {name: value for key, name in told.items() if (value := (record.get("thread") or {}).get(key)) is not None}
    small = len(json_text.dumps(record["turn"])) <= MAX_TURN_BYTES
    data["turn"] = record["turn"] if small else None
    tenant = record.get("tenant")
    version = (tenant, record["thread_id"], record["turn_id"], record["status"], record["events"], record["revision"])
    digest = hashlib.sha256(repr(version).encode("utf-8", "backslashreplace")).hexdigest()
    key, payload = key_of(record), _body(kind, at, data)
    return Event(f"turn_{digest[:32]}", kind, tenant, lane_of(tenant, key.thread_id), at, payload, position, key)


def notice_event(record: NoticeRecord, position: tuple[str, int, int], at: int) -> Event:
    """Return the event of a notice."""
    tenant, thread = record.get("tenant"), record.get("thread_id")
    data = {name: value for name, value in (("tenant", tenant), ("thread_id", thread)) if value is not None}
    lane = lane_of(tenant, notice.subject_of(record) or record["type"])
    payload = _body(record["type"], record["at"], {**data, **record["data"]})
    return Event(record["id"], record["type"], tenant, lane, at, payload, position)


def feedback_event(record: FeedbackRecord, position: tuple[str, int, int], at: int) -> Event:
    """Return the event of feedback on a thread; a value of null withdraws it."""
    tenant, key = record.get("tenant"), ThreadKey.of(record["thread_id"], record.get("tenant"))
    data = {name: value for name, value in record.items() if name != "v"}
    digest = hashlib.sha256(json_text.dumps(record).encode()).hexdigest()
    payload = _body(FEEDBACK_GIVEN, at, data)
    return Event(
        f"said_{digest[:32]}", FEEDBACK_GIVEN, tenant, lane_of(tenant, key.thread_id), at, payload, position, key
    )


def _body(kind: str, at: int, data: dict[str, Any]) -> bytes:
    try:
        return body(kind, iso(at), data)
    except TypeError:  # lone surrogates, integers over 64 bits, deep nesting
        return json_text.dumps({"type": kind, "timestamp": iso(at), "data": data}).encode()
