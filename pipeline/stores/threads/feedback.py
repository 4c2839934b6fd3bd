"""Feedback in the store: the latest record of each feedback id, by its offset.

The broker's clock may go back, and a topic made anew begins again with small offsets. So a record is the latest if it
has a larger offset than the stored one, or a later time than all before.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import case, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.held_and_erased import erased_of
from pipeline.stores.database.ids import INSERT
from pipeline.stores.database.keys import key_text
from pipeline.stores.database.schema import feedback
from pipeline.stores.database.sending import certain, portions
from pipeline.stores.database.store import ThreadStore
from pipeline.turns.column_text import column_text
from topics.feedback import FeedbackRecord
from topics.thread_key import ThreadKey

Row = dict[str, Any]


class ReceivedFeedback(NamedTuple):
    """A feedback record with its time (epoch ms of the broker) and its offset."""

    record: FeedbackRecord
    at: int
    offset: int


async def add_feedback(store: ThreadStore, received: Sequence[ReceivedFeedback]) -> int:
    """Store feedback, if newer than the stored; return how many records were skipped since their thread is erased."""
    newest: dict[tuple[str, str], tuple[ThreadKey, ReceivedFeedback]] = {}
    for item in sorted(received, key=lambda item: item.offset):
        key = thread_of(item.record)
        newest[key_text(key), column_text(item.record["id"]) or ""] = key, item
    async with store.writing() as connection:
        await certain(connection)
        erased = await erased_of(connection, {key for key, _ in newest.values()})
        rows = [_row(text, id_, key, newer) for (text, id_), (key, newer) in newest.items() if key not in erased]
        new = INSERT[connection.dialect.name](feedback)
        is_later = feedback.c.at < new.excluded.at
        change = new.on_conflict_do_update(
            index_elements=[feedback.c.thread_key, feedback.c.id],
            set_={name: new.excluded[name] for name in ("name", "record", "offset")}
            | {"at": case((is_later, new.excluded.at), else_=feedback.c.at)},
            where=is_later | (feedback.c.offset < new.excluded.offset),
        )
        if rows:
            await connection.execute(change, rows)
    return sum(thread_of(judgement.record) in erased for judgement in received)


async def feedback_of(
    store: ThreadStore, keys: Collection[ThreadKey], newest: int | None = None
) -> dict[ThreadKey, list[FeedbackRecord]]:
    """Return the feedback on each of these threads, oldest first, without what was retracted.

    `newest`: how many of all are read; None: all of them.
    """
    texts = {key_text(key): key for key in keys}
    by_thread: dict[ThreadKey, list[FeedbackRecord]] = {key: [] for key in keys}
    async with store.reading() as connection:
        await certain(connection)
        for some in portions(sorted(texts)):
            query = select(feedback.c.thread_key, feedback.c.record).where(feedback.c.thread_key.in_(some))
            if newest is not None:
                query = query.where(feedback.c.name.is_not(None)).order_by(feedback.c.at.desc()).limit(newest)
            for text, record in await connection.execute(query):
                if record is not None:
                    by_thread[texts[text]].append(record)
    return {key: sorted(some, key=lambda record: (record["at"], record["id"])) for key, some in by_thread.items()}


async def newest_feedback(store: ThreadStore, name: str | None, tenant: str | None, limit: int) -> list[FeedbackRecord]:
    """Return the newest feedback of a name and a tenant (None: any; "": none), the newest first."""
    query = select(feedback.c.record).where(feedback.c.name.is_not(None) if name is None else feedback.c.name == name)
    if tenant is not None:
        query = query.where(feedback.c.tenant == (column_text(tenant) or ""))
    return [row.record for row in await store.rows(query.order_by(feedback.c.at.desc(), feedback.c.id).limit(limit))]


async def author_of(store: ThreadStore, key: ThreadKey, feedback_id: str) -> tuple[str, str]:
    """Return who gave stored feedback on a thread, as its `by` and `by_id`; "" if it does not say, or there is none."""
    query = select(feedback.c.record).where(feedback.c.thread_key == key_text(key), feedback.c.id == feedback_id)
    async with store.reading() as connection:
        record = await connection.scalar(query)
    record = record or {}
    return record.get("by", ""), record.get("by_id", "")


async def forget_feedback(store: ThreadStore, tenant: str) -> None:
    """Delete the feedback of a tenant, "" for none."""
    async with store.writing() as connection:
        await certain(connection)
        await connection.execute(delete(feedback).where(feedback.c.tenant == (column_text(tenant) or "")))


async def delete_feedback(connection: AsyncConnection, keys: Iterable[ThreadKey], _: str) -> None:
    """Delete the feedback on threads."""
    for some in portions(sorted(map(key_text, keys))):
        await connection.execute(delete(feedback).where(feedback.c.thread_key.in_(some)))


def thread_of(record: FeedbackRecord) -> ThreadKey:
    """Return the thread that a record is about."""
    return ThreadKey.of(record["thread_id"], record.get("tenant"))


def _row(text: str, id_: str, key: ThreadKey, received: ReceivedFeedback) -> Row:
    record = received.record if received.record["value"] is not None else None
    return {
        "thread_key": text,
        "id": id_,
        "tenant": column_text(key.tenant) if key.tenant else "",
        "name": column_text(record["name"]) if record is not None else None,
        "record": record,
        "at": received.at,
        "offset": received.offset,
    }
