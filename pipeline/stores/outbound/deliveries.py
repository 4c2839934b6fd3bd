"""Webhooks of the API, and the queue of deliveries, which survives restarts.

Only the first delivery of a lane (a webhook and a thread) is due at some time; the others wait until it is removed. So
the deliveries of a thread stay in order, and a delayed delivery blocks no other thread.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.policies.webhooks import Event, Webhook, lane_of
from pipeline.stores.database.expressions import row_one_of
from pipeline.stores.database.held_and_erased import erased_of
from pipeline.stores.database.ids import INSERT
from pipeline.stores.database.keys import key_text
from pipeline.stores.database.schema import webhook_deliveries as queue
from pipeline.stores.database.schema import webhooks
from pipeline.stores.database.sending import certain
from pipeline.stores.database.store import ThreadStore
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms

CLAIMED_MS: Final = 60_000  # for which a claimed delivery belongs to a worker; every attempt is shorter
LANES: Final = 0x77686B  # "whk": the first key of Postgres' advisory locks of lanes

CANDIDATES: Final = 128  # from which a claim chooses: the oldest of each owner, then the second of each, and so on
OWNER_CANDIDATES: Final = 32  # candidates of an owner; of a webhook at most WEBHOOK_CONCURRENCY
WEBHOOK_CONCURRENCY: Final = 4  # deliveries in progress to a webhook: a slow webhook must leave room for others


class Due(NamedTuple):
    """A delivery that is due. `owner`: as `Webhook.owner`."""

    seq: int
    webhook: str
    owner: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event on its way to a webhook; times in epoch ms, `at` that of its record."""

    due: Due
    id: str
    lane: str
    payload: str
    place: tuple[str, int, int]
    at: int
    attempts: int

    @property
    def webhook(self) -> str:
        """The id of the webhook that it is for."""
        return self.due.webhook


# ---- webhooks of the API


async def all_webhooks(store: ThreadStore, now: int) -> list[Webhook]:
    """Return all webhooks, oldest first, with the secrets that are valid at `now` (epoch ms)."""
    rows = await store.rows(select(webhooks).order_by(webhooks.c.created_at, webhooks.c.id))
    valid = [tuple(secret for secret, until in row.secrets if until is None or now < until) for row in rows]
    return [
        Webhook(row.id, row.url, tuple(row.events), row.tenant, secrets, row.created_at, row.form)
        for row, secrets in zip(rows, valid, strict=True)
    ]


async def add_webhook(store: ThreadStore, webhook: Webhook) -> None:
    """Store a new webhook."""
    row = {**asdict(webhook), "events": list(webhook.events), "secrets": [[secret, None] for secret in webhook.secrets]}
    await store.change(insert(webhooks), [row])


async def rotate_webhook(store: ThreadStore, webhook_id: str, secret: str, now: int, old_until: int) -> bool:
    """Give a webhook a new secret; the newest old one also signs until `old_until` (epoch ms). Return if it exists."""
    mine = webhooks.c.id == webhook_id
    async with store.writing() as connection:
        row = (await connection.execute(select(webhooks).where(mine).with_for_update())).first()
        if row is None:
            return False
        kept = [[secret, None], [row.secrets[0][0], old_until]]
        await connection.execute(update(webhooks).where(mine).values(secrets=kept))
        return True


async def drop_webhooks(store: ThreadStore, tenant: str) -> int:
    """Delete the webhooks of a tenant, and their queued deliveries; return how many webhooks there were."""
    async with store.writing() as connection:
        owners = await connection.execute(select(webhooks.c.id, webhooks.c.tenant))
        gone = [webhook for webhook, owner in owners if owner == tenant]  # in Python: some names fit no column
        await connection.execute(delete(webhooks).where(webhooks.c.id.in_(gone)))
        await connection.execute(delete(queue).where(queue.c.webhook.in_(gone)))
        return len(gone)


async def drop_webhook(store: ThreadStore, webhook_id: str) -> bool:
    """Delete a webhook, and its queued deliveries; return whether it existed."""
    async with store.writing() as connection:
        gone = await connection.execute(delete(webhooks).where(webhooks.c.id == webhook_id))
        await connection.execute(delete(queue).where(queue.c.webhook == webhook_id))
        return gone.rowcount > 0


# ---- the queue


async def enqueue(store: ThreadStore, events: Sequence[tuple[str, Event]], now: int) -> None:
    """Queue events for webhooks (by id), in this order. Skip queued events, and those of erased threads."""
    if not events:
        return
    async with store.writing() as connection:
        await _lock(connection, {event.lane for _, event in events})
        await certain(connection)
        # Read after taking the locks: an erasure takes them, too, to delete the queued deliveries.
        erased = await erased_of(connection, {event.thread for _, event in events if event.thread is not None})
        events = [event for event in events if event[1].thread not in erased]
        lanes = sorted({(webhook, event.lane) for webhook, event in events})
        waiting = row_one_of((queue.c.webhook, queue.c.lane), lanes)
        result = await connection.execute(select(queue.c.webhook, queue.c.lane).where(waiting).distinct())
        busy = {(row.webhook, row.lane) for row in result}
        rows = []
        for webhook, event in events:
            lane = webhook, event.lane
            rows.append(_row(webhook, event, None if lane in busy else now))
            busy.add(lane)
        if not rows:
            return
        new = INSERT[connection.dialect.name](queue)
        # The driver inserts rows in order: the order of their numbers is the order of delivery.
        await connection.execute(new.on_conflict_do_nothing(index_elements=[queue.c.webhook, queue.c.id]), rows)


async def claim_deliveries(
    store: ThreadStore, now: int, choose: Callable[[Sequence[Due]], Sequence[int]]
) -> list[Delivery]:
    """Claim the due deliveries that `choose` picks by index, for CLAIMED_MS; each owner's oldest come first."""
    due = queue.c.due <= now
    async with store.reading() as connection:  # nearly always nothing is due
        await certain(connection)
        if await connection.scalar(select(queue.c.seq).where(due).limit(1)) is None:
            return []
    async with store.writing() as connection:
        await certain(connection)
        chosen = {
            delivery.seq: delivery for delivery in map(Due._make, (await connection.execute(_candidates(now))).all())
        }
        numbers = choose(list(chosen.values()))
        if not numbers:
            return []
        # `due` is checked again: another worker may have claimed them meanwhile.
        mine = update(queue).where(queue.c.seq.in_(numbers), due).values(due=now + CLAIMED_MS)
        rows = (await connection.execute(mine.returning(*queue.c))).all()
    return [_delivery(row, chosen[row.seq]) for row in sorted(rows, key=lambda row: row.seq)]


async def still_waits(store: ThreadStore, delivery: Delivery) -> bool:
    """Return True if it is still to be delivered: its thread may have been erased since, or its webhook deleted."""
    async with store.reading() as connection:
        await certain(connection)
        return await connection.scalar(select(queue.c.seq).where(*_same(delivery))) is not None


async def finish_delivery(store: ThreadStore, delivery: Delivery, now: int) -> None:
    """Remove a delivery that succeeded or was given up; the next in its lane becomes due."""
    lane = queue.c.webhook == delivery.webhook, queue.c.lane == delivery.lane
    async with store.writing() as connection:
        await _lock(connection, [delivery.lane])
        await connection.execute(delete(queue).where(*_same(delivery)))
        following = select(func.min(queue.c.seq)).where(*lane).scalar_subquery()
        await connection.execute(update(queue).where(queue.c.seq == following, queue.c.due.is_(None)).values(due=now))


async def retry_delivery(store: ThreadStore, delivery: Delivery, due: int) -> None:
    """Retry a failed delivery at `due` (epoch ms)."""
    values = {"due": due, "attempts": delivery.attempts + 1}
    await store.change(update(queue).where(*_same(delivery)).values(**values))


async def waiting_deliveries(store: ThreadStore) -> Mapping[str, int]:
    """Return how many events are queued, by webhook."""
    counts = select(queue.c.webhook, func.count()).group_by(queue.c.webhook)
    return {row[0]: row[1] for row in await store.rows(counts)}


async def forget_deliveries(connection: AsyncConnection, thread: ThreadKey) -> None:
    """Delete a thread's queued turns in the caller's transaction; the next deliveries of the lane become due."""
    lane = lane_of(thread.tenant, thread.thread_id)
    await _lock(connection, [lane])
    await connection.execute(delete(queue).where(queue.c.lane == lane, queue.c.thread_key == key_text(thread)))
    first = select(func.min(queue.c.seq)).where(queue.c.lane == lane).group_by(queue.c.webhook)
    behind = queue.c.seq.in_(first), queue.c.due.is_(None)
    await connection.execute(update(queue).where(*behind).values(due=now_ms()))


async def _lock(connection: AsyncConnection, lanes: Iterable[str]) -> None:
    """Hold these lanes until the transaction ends; SQLite has a single writer anyhow."""
    if connection.dialect.name == "postgresql":
        each = "SELECT pg_advisory_xact_lock(:space, hashtext(lane)) FROM unnest(CAST(:lanes AS text[])) AS lane"
        await connection.execute(text(each), {"space": LANES, "lanes": sorted(lanes)})


def _same(delivery: Delivery) -> tuple[Any, ...]:
    """Return the conditions of this delivery's row; its number is not enough, since SQLite may reuse it."""
    return queue.c.seq == delivery.due.seq, queue.c.webhook == delivery.webhook, queue.c.id == delivery.id


def _row(webhook: str, event: Event, due: int | None) -> dict[str, Any]:
    row = {"webhook": webhook, "id": event.id, "lane": event.lane, "at": event.at, "due": due, "attempts": 0}
    row["thread_key"] = None if event.thread is None else key_text(event.thread)
    return {**row, "payload": event.payload.decode(), "place": list(event.place)}


def _candidates(now: int) -> Select[Any]:
    """Return a query of due deliveries, as `Due`, the oldest of each owner first."""
    owner = func.coalesce(webhooks.c.tenant, queue.c.webhook)
    oldest = (queue.c.due, queue.c.seq)
    within = func.row_number().over(partition_by=queue.c.webhook, order_by=oldest)
    columns = (queue.c.seq, queue.c.webhook, owner.label("owner"), queue.c.due, within.label("within"))
    of = select(*columns).outerjoin(webhooks, webhooks.c.id == queue.c.webhook).where(queue.c.due <= now).subquery()
    rank = func.row_number().over(partition_by=of.c.owner, order_by=(of.c.within, of.c.due, of.c.seq))
    ranked = select(of, rank.label("place")).where(of.c.within <= WEBHOOK_CONCURRENCY).subquery()
    first = select(ranked.c.seq, ranked.c.webhook, ranked.c.owner).where(ranked.c.place <= OWNER_CANDIDATES)
    return first.order_by(ranked.c.place, ranked.c.due, ranked.c.seq).limit(CANDIDATES)


def _delivery(row: Any, due: Due) -> Delivery:
    position = str(row.place[0]), int(row.place[1]), int(row.place[2])
    return Delivery(due, row.id, row.lane, row.payload, position, row.at, row.attempts)
