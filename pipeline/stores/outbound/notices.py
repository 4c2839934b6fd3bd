"""Outbox of notices: they wait in the store until they are published.

A notice is written in the transaction of the change that it reports, and waits in the store until it is on its topic:
so none is lost, and none is sent of a change that was rolled back.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.observability.audit import ERASURES
from pipeline.stores.database.ids import INSERT
from pipeline.stores.database.schema import notices
from pipeline.stores.database.sending import certain, portions
from pipeline.stores.database.store import ThreadStore
from topics.notice import AUDIT_RECORDED, STORE_CHANGED, THREAD_DELETED, VERSION, NoticeRecord
from topics.thread_key import ThreadKey

BATCH_SIZE: Final = 500
KNOWN_MS: Final = 86_400_000  # for which a notice stays known, so that no other process adds it again
CLAIMED_MS: Final = 60_000  # after which another process may send a claimed notice

Row = dict[str, Any]


def deleted(key: ThreadKey, reason: str, at: int) -> NoticeRecord:
    """Return the notice of a deletion."""
    data = {"reason": reason}
    record: NoticeRecord = {"v": VERSION, "id": str(uuid4()), "type": THREAD_DELETED, "at": at, "data": data}
    record["thread_id"] = key.thread_id
    if key.tenant:
        record["tenant"] = key.tenant
    return record


async def add(connection: AsyncConnection, records: Sequence[NoticeRecord], keep_until: int = 0) -> None:
    """Leave notices whose ids are unknown. `keep_until` (epoch ms): until then an id stays known after it was sent."""
    rows = [{"id": record["id"], "due": record["at"], "keep_until": keep_until, "record": record} for record in records]
    if rows:
        new = INSERT[connection.dialect.name](notices)
        await connection.execute(new.on_conflict_do_nothing(index_elements=[notices.c.id]), rows)


async def add_notices(store: ThreadStore, records: Sequence[NoticeRecord], keep_until: int) -> None:
    """Leave notices in a transaction of their own; see `add`."""
    async with store.writing() as connection:
        await add(connection, records, keep_until)


async def due_notices(store: ThreadStore, now: int) -> list[NoticeRecord]:
    """Claim some notices that are due, the oldest first, for CLAIMED_MS."""
    due = notices.c.due <= now
    async with store.reading() as connection:  # nearly always there is none
        await certain(connection)
        if await connection.scalar(select(notices.c.id).where(due).limit(1)) is None:
            return []
    some = select(notices.c.id).where(due).order_by(notices.c.due, notices.c.id).limit(BATCH_SIZE)
    mine = update(notices).where(notices.c.id.in_(some.with_for_update(skip_locked=True)))
    claim = mine.values(due=now + CLAIMED_MS).returning(notices.c.record)
    async with store.writing() as connection:
        await certain(connection)
        records: list[NoticeRecord] = list(await connection.scalars(claim))
    return sorted(records, key=lambda record: (record["at"], record["id"]))


async def notices_sent(store: ThreadStore, ids: Collection[str], now: int) -> None:
    """Delete notices that were published, except the ids that must stay known."""
    async with store.writing() as connection:
        await certain(connection)
        mine = notices.c.id.in_(sorted(ids))
        await connection.execute(update(notices).where(mine).values(due=None))
        await connection.execute(delete(notices).where(notices.c.due.is_(None), notices.c.keep_until <= now))


async def forget_notices(store: ThreadStore, tenant: str) -> None:
    """Delete a tenant's notices, except those of deletions."""
    async with store.writing() as connection:
        rows = (await connection.execute(select(notices.c.id, notices.c.record))).all()
        gone = [row.id for row in rows if of_notice(row.record) == tenant]
        for some in portions(gone):
            await connection.execute(delete(notices).where(notices.c.id.in_(some)))


def of_notice(record: Any) -> str | None:
    """Return whose usage or actions a notice reports; None if it only reports a deletion, or a change."""
    if record.get("type") == AUDIT_RECORDED:
        return None if record["data"].get("action") in ERASURES else record.get("tenant")
    return None if record.get("type") in (THREAD_DELETED, STORE_CHANGED) else record.get("tenant") or ""
