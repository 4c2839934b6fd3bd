"""Outbox of notices: they wait in the store until they are published.

A notice is written in the transaction of the change that it reports, and waits in the store until it is on its topic:
so none is lost, and none is sent of a change that was rolled back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import ColumnElement, and_, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.connections import Connected
from pipeline.stores.database.names import INSERT
from pipeline.stores.database.schema import notices
from pipeline.stores.threads import statements
from pipeline.stores.threads.feedback import delete_feedback
from pipeline.stores.threads.lookups import certain
from pipeline.stores.threads.unused_names import forget_agents, forget_names, forget_requests
from topics.notice import THREAD_DELETED, VERSION, NoticeRecord
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms

BATCH_SIZE: Final = 500
CLAIMED_MS: Final = 60_000  # after which another process may send a claimed notice

Row = dict[str, Any]


async def delete_turns(connection: AsyncConnection, keys: Iterable[ThreadKey], reason: str) -> None:
    """Delete the turns of threads, and leave a notice of each thread that had any.

    Feedback on them is deleted, too, and names and requests that no other row uses. `reason`: deleted, expired.
    """
    keys, agents, names, requests = list(keys), set[int](), set[int](), set[int]()
    await delete_feedback(connection, keys)
    for key in keys:
        names.update(await connection.scalars(statements.names_in(key)))
        requests.update(await connection.scalars(statements.requests_in(key)))
        gone = await connection.execute(statements.delete_turns(key))
        agents.update(await connection.scalars(statements.delete_agents(key)))
        if gone.rowcount:
            await add(connection, [deleted(key, reason, now_ms())])
    await forget_names(connection, names)
    await forget_agents(connection, agents)
    await forget_requests(connection, requests)


def deleted(key: ThreadKey, reason: str, at: int) -> NoticeRecord:
    """Return the notice of a deletion."""
    record: NoticeRecord = {"v": VERSION, "id": str(uuid4()), "type": THREAD_DELETED, "at": at, "data": {}}
    record["data"] = {"reason": reason}
    record["thread_id"] = key.thread_id
    if key.tenant:
        record["tenant"] = key.tenant
    return record


async def add(connection: AsyncConnection, records: Sequence[NoticeRecord], keep_until: int = 0) -> None:
    """Leave notices; one whose id is known already changes nothing.

    `keep_until` (epoch ms): until then its id stays known after it was sent.
    """
    rows = [{"id": one["id"], "due": one["at"], "keep_until": keep_until, "record": one} for one in records]
    if rows:
        new = INSERT[connection.dialect.name](notices)
        await connection.execute(new.on_conflict_do_nothing(index_elements=[notices.c.id]), rows)


class Noticing(Connected):
    """A store with notices. Every method raises StoreError; times in epoch ms."""

    async def add_notices(self, records: Sequence[NoticeRecord], keep_until: int) -> None:
        """See `add`."""
        async with self._writing() as connection:
            await add(connection, records, keep_until)

    async def due_notices(self, now: int) -> list[NoticeRecord]:
        """Claim some notices that are due, the oldest first, for CLAIMED_MS."""
        due = notices.c.due <= now
        async with self._reading() as connection:  # nearly always there is none
            await certain(connection)
            if await connection.scalar(select(notices.c.id).where(due).limit(1)) is None:
                return []
        some = select(notices.c.id).where(due).order_by(notices.c.due, notices.c.id).limit(BATCH_SIZE)
        mine = update(notices).where(notices.c.id.in_(some.with_for_update(skip_locked=True)))
        claim = mine.values(due=now + CLAIMED_MS).returning(notices.c.record)
        async with self._writing() as connection:
            await certain(connection)
            found: list[NoticeRecord] = list(await connection.scalars(claim))
        return sorted(found, key=lambda one: (one["at"], one["id"]))

    async def notices_sent(self, ids: Collection[str], now: int) -> None:
        """Delete notices that were published, except the ids that must stay known."""
        async with self._writing() as connection:
            await certain(connection)
            mine = notices.c.id.in_(sorted(ids))
            await connection.execute(update(notices).where(mine).values(due=None))
            await connection.execute(delete(notices).where(_over(now)))


def _over(now: int) -> ColumnElement[bool]:
    return and_(notices.c.due.is_(None), notices.c.keep_until <= now)
