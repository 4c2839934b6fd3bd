"""Feedback in the store: the latest record of each feedback id, by its offset.

The broker's clock may go back, and a topic made anew begins again with small offsets. So a record is the latest if it
has a larger offset than what is stored, or a later time than all before.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.expressions import given, row_matches_given, row_one_of
from pipeline.stores.database.held_and_erased import erased_of
from pipeline.stores.database.ids import INSERT
from pipeline.stores.database.keys import id_and_tenant
from pipeline.stores.database.schema import feedback
from pipeline.stores.database.sending import certain, portions
from pipeline.stores.database.store import ThreadStore
from pipeline.turns.column_text import column_text, snippet
from pipeline.turns.judged import COMPARED, Condition
from topics.feedback import FeedbackRecord, shown
from topics.thread_key import ThreadKey

Row = dict[str, Any]
THREAD: Final = (feedback.c.thread_id, feedback.c.tenant)
MAX_NAMES: Final = 100  # of feedback, from which a reader chooses
SHOWN: Final = 3  # of a thread in a line of a list, the newest
COMMENT: Final = 300  # characters of its comment


class ReceivedFeedback(NamedTuple):
    """A feedback record with its time (epoch ms of the broker) and its offset."""

    record: FeedbackRecord
    at: int
    offset: int


async def add_feedback(store: ThreadStore, received: Sequence[ReceivedFeedback]) -> int:
    """Store feedback, if newer than the stored; return how many records were skipped since their thread is erased."""
    newest: dict[tuple[ThreadKey, str], ReceivedFeedback] = {}
    for item in sorted(received, key=lambda item: item.offset):
        newest[thread_of(item.record), column_text(item.record["id"]) or ""] = item
    async with store.writing() as connection:
        await certain(connection)
        erased = await erased_of(connection, {key for key, _ in newest})
        rows = [_row(key, id_, newer) for (key, id_), newer in newest.items() if key not in erased]
        new = INSERT[connection.dialect.name](feedback)
        is_later = feedback.c.at < new.excluded.at
        change = new.on_conflict_do_update(
            index_elements=[*THREAD, feedback.c.id],
            set_={name: new.excluded[name] for name in ("name", "number", "record", "offset")}
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
    named = {id_and_tenant(key): key for key in keys}
    by_thread: dict[ThreadKey, list[FeedbackRecord]] = {key: [] for key in keys}
    async with store.reading() as connection:
        await certain(connection)
        for some in portions(sorted(named)):
            query = select(*THREAD, feedback.c.record).where(_on(some))
            if newest is not None:
                query = query.where(feedback.c.name.is_not(None)).order_by(feedback.c.at.desc()).limit(newest)
            for *thread, record in await connection.execute(query):
                if record is not None:
                    by_thread[named[thread[0], thread[1]]].append(record)
    return {key: sorted(some, key=lambda record: (record["at"], record["id"])) for key, some in by_thread.items()}


async def in_lines(
    connection: AsyncConnection, keys: Collection[ThreadKey], wanted: Condition | None
) -> dict[ThreadKey, list[dict[str, Any]]]:
    """Return the newest feedback on each thread for a line of a list, SHOWN of each; `wanted`: what meets it alone."""
    named = {id_and_tenant(key): key for key in keys}
    by_thread: dict[ThreadKey, list[dict[str, Any]]] = {}
    query = _newest_of_all() if wanted is None else _newest(meets(wanted))
    for thread_id, tenant, record in await connection.execute(query, given(THREAD, sorted(named))) if named else ():
        told = {name: value for name, value in shown(record).items() if name in ("name", "value", "by", "at")}
        told |= {"comment": snippet(record["comment"], COMMENT)} if "comment" in record else {}
        by_thread.setdefault(named[thread_id, tenant], []).append(told)
    return by_thread


@cache
def _newest_of_all() -> Select[Any]:
    """Return the query of most lists, built once."""
    return _newest(feedback.c.name.is_not(None))


def _newest(kept: ColumnElement[bool]) -> Select[Any]:
    """Return a query of the newest feedback of `given` threads, in order: thread_id, tenant, record."""
    place = func.row_number().over(partition_by=THREAD, order_by=(feedback.c.at.desc(), feedback.c.id))
    placed = select(*THREAD, feedback.c.id, place.label("place"))
    rows = placed.where(row_matches_given(THREAD), kept).subquery()
    same = and_(rows.c.thread_id == THREAD[0], rows.c.tenant == THREAD[1], rows.c.id == feedback.c.id)
    query = select(*THREAD, feedback.c.record).join_from(rows, feedback, same).where(rows.c.place <= SHOWN)
    return query.order_by(*THREAD, rows.c.place)


def meets(wanted: Condition) -> ColumnElement[bool]:
    """Return the condition that a row of feedback meets a caller's."""
    is_text = isinstance(wanted.value, str)
    compare: Callable[[Any, Any], Any] = COMPARED[wanted.sign]
    column: Any = feedback.c.record["value"].as_string() if is_text else feedback.c.number
    is_so = compare(column, wanted.value if is_text else float(wanted.value))
    return and_(feedback.c.name == column_text(wanted.name), feedback.c.number.is_(None) == is_text, is_so)


async def names_of(store: ThreadStore, tenant: str | None) -> list[str]:
    """Return the first MAX_NAMES names of feedback of a tenant (None: any; "": none), sorted: a look-up for each."""
    names: list[str] = [""]
    mine = [] if tenant is None else [feedback.c.tenant == (column_text(tenant) or "")]
    async with store.reading() as connection:
        while len(names) <= MAX_NAMES:
            query = select(func.min(feedback.c.name)).where(feedback.c.name > names[-1], *mine)
            name = await connection.scalar(query)
            if name is None:
                break
            names.append(name)
    return names[1:]


async def newest_feedback(store: ThreadStore, name: str | None, tenant: str | None, limit: int) -> list[FeedbackRecord]:
    """Return the newest feedback of a name and a tenant (None: any; "": none), the newest first."""
    query = select(feedback.c.record).where(feedback.c.name.is_not(None) if name is None else feedback.c.name == name)
    if tenant is not None:
        query = query.where(feedback.c.tenant == (column_text(tenant) or ""))
    return [row.record for row in await store.rows(query.order_by(feedback.c.at.desc(), feedback.c.id).limit(limit))]


async def author_of(store: ThreadStore, key: ThreadKey, feedback_id: str) -> tuple[str, str]:
    """Return who gave stored feedback on a thread, as its `by` and `by_id`; "" if it does not say, or there is none."""
    query = select(feedback.c.record).where(_on([id_and_tenant(key)]), feedback.c.id == feedback_id)
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
    for some in portions(sorted(map(id_and_tenant, keys))):
        await connection.execute(delete(feedback).where(_on(some)))


def thread_of(record: FeedbackRecord) -> ThreadKey:
    """Return the thread that a record is about."""
    return ThreadKey.of(record["thread_id"], record.get("tenant"))


def _on(threads: Sequence[tuple[str, str]]) -> ColumnElement[bool]:
    return row_one_of(THREAD, threads)


def _row(key: ThreadKey, id_: str, received: ReceivedFeedback) -> Row:
    thread_id, tenant = id_and_tenant(key)
    value = received.record["value"]
    record = received.record if value is not None else None
    return {
        "thread_id": thread_id,
        "tenant": tenant,
        "id": id_,
        "name": column_text(record["name"]) if record is not None else None,
        "number": None if value is None or isinstance(value, str) else float(value),
        "record": record,
        "at": received.at,
        "offset": received.offset,
    }
