"""Labels of runs in the store: which threads have them, and under which of them usage is summed."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Select, and_, bindparam, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.observability.metrics import OTHER
from pipeline.stores.database.ids import digest, numbers_of
from pipeline.stores.database.keys import NO_TENANT, Label, key_of
from pipeline.stores.database.schema import labels, thread_labels
from pipeline.stores.database.sending import portions
from pipeline.turns.column_text import column_text
from topics import json_text
from topics.json_text import object_of
from topics.turn_record import LABELS, TurnRecord
from turnmill.labels import SINGLE, pairs

COUNTED: Final = 1_000  # labels of a kind under which a tenant's usage is summed; that of all others is `other`
SHOWN: Final = 20  # labels of a kind in a thread's line: those of most of its turns


def labels_in(record: TurnRecord) -> list[Label]:
    """Return the labels of a record, which may be foreign."""
    known = object_of(record.get("thread")).get(LABELS)
    if known is None:
        return []
    tenant = column_text(key_of(record).tenant) or NO_TENANT
    return [Label(tenant, kind, column_text(label) or "") for kind, label in pairs(known)]


async def label_ids(connection: AsyncConnection, wanted: Iterable[Label]) -> dict[Label, int]:
    """Return the integers of labels; missing ones are added, and counted while there are few of their kind."""
    by_digest, new = {digest(label): label for label in wanted}, set[Label]()

    def row(label: Label) -> dict[str, object]:
        new.add(label)
        return {**label._asdict(), "counted": True}

    ids = await numbers_of(connection, labels, by_digest, row)
    for tenant, kind in sorted({(label.tenant, label.kind) for label in new}):
        mine = and_(labels.c.tenant == tenant, labels.c.kind == kind)
        among = select(labels.c.id).where(mine).limit(COUNTED + len(new)).subquery()
        if (await connection.scalar(select(func.count()).select_from(among)) or 0) > COUNTED:
            added = [key for key, label in by_digest.items() if label in new]
            await connection.execute(update(labels).where(mine, labels.c.digest.in_(added)).values(counted=False))
    return {label: ids[key] for key, label in by_digest.items()}


async def uncounted(connection: AsyncConnection, some: Collection[Label]) -> set[Label]:
    """Return those of these labels whose usage is summed as OTHER."""
    by_digest, others = {digest(label): label for label in some}, set[Label]()
    for keys in portions(sorted(by_digest)):
        query = select(labels.c.digest).where(labels.c.digest.in_(keys), ~labels.c.counted)
        others.update(by_digest[bytes(key)] for key in await connection.scalars(query))
    return others


def names_of(some: Sequence[Label], others: Collection[Label]) -> tuple[str | None, ...]:
    """Return the labels of a turn as the last fields of `UsageNames`."""
    named = [(label.kind, OTHER if label in others else label.label) for label in some]
    single, tags = dict(named), sorted({label for kind, label in named if kind == "tag"})
    return *(single.get(kind) for kind in SINGLE), json_text.dumps(tags) if tags else None


def threads_with(kind: str, wanted: Sequence[str]) -> Select[Any]:
    """Return a query of the integers of threads that have any of these labels, of any tenant."""
    texts = [column_text(label) for label in wanted]
    ids = select(labels.c.id).where(labels.c.kind == kind, labels.c.label.in_(texts))
    return select(thread_labels.c.thread).where(thread_labels.c.label.in_(ids))


async def labels_of(connection: AsyncConnection, threads: Sequence[int]) -> dict[int, dict[str, list[str]]]:
    """Return the labels of threads by their integers and by kind: SHOWN of each, those of most turns first."""
    by_thread: dict[int, dict[str, list[str]]] = {}
    for thread, kind, label in await connection.execute(_labels_of(), {"threads": threads}):
        by_thread.setdefault(thread, {}).setdefault(kind, []).append(label)
    return by_thread


@cache
def _labels_of() -> Select[Any]:
    order = thread_labels.c.turns.desc(), labels.c.label
    place = func.row_number().over(partition_by=(thread_labels.c.thread, labels.c.kind), order_by=order)
    ranked = select(thread_labels.c.thread, labels.c.kind, labels.c.label, place.label("place"))
    ranked = ranked.join(labels, thread_labels.c.label == labels.c.id)
    rows = ranked.where(thread_labels.c.thread.in_(bindparam("threads", expanding=True))).subquery()
    query = select(rows.c.thread, rows.c.kind, rows.c.label).where(rows.c.place <= SHOWN)
    return query.order_by(rows.c.thread, rows.c.kind, rows.c.place)
