"""Data sets in the store: turns that people have chosen, under a name within their tenant.

A set is there as long as it has turns. Rows name turns as producers do, and not by integers: a restore brings them
back, whether their turns are stored again yet or not.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.expressions import row_one_of
from pipeline.stores.database.held_and_erased import erased_of
from pipeline.stores.database.keys import id_and_tenant, thread_of, turn_bytes, turn_text
from pipeline.stores.database.schema import dataset_turns, threads, turns
from pipeline.stores.database.sending import certain, portions
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import statements
from pipeline.stores.threads.rows import FACTS
from pipeline.stores.threads.write import lock
from pipeline.turns.column_text import column_text
from pipeline.turns.thread_document import UnknownTurn
from topics import json_text
from topics.json_text import Fields
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.limits import DATASET_TURNS, DATASETS

NAME_CHARACTERS: Final = 100
NAME_PATTERN: Final = r"^\w[\w .-]*$"  # a segment of a path
of = dataset_turns.c


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set: how many turns it has, and when the newest was added (epoch ms)."""

    name: str
    tenant: str | None
    turns: int
    newest: int


@dataclass(frozen=True, slots=True)
class ChosenTurn:
    """A turn in a data set. `number`: its position there; `title`: its thread's; `added_at`: epoch ms."""

    number: int
    thread_id: str
    turn_id: str
    title: str | None
    added_at: int


async def datasets_of(store: ThreadStore, tenant: str | None) -> list[Dataset]:
    """Return the data sets of a tenant ("" for none; None: of all), by name."""
    mine = [] if tenant is None else [of.tenant == (column_text(tenant) or "")]
    query = select(of.dataset, of.tenant, func.count(), func.max(of.added_at)).where(*mine)
    rows = await store.rows(query.group_by(of.tenant, of.dataset).order_by(of.dataset, of.tenant))
    return [Dataset(name, owner or None, int(count), int(newest)) for name, owner, count, newest in rows]


async def turns_of(store: ThreadStore, tenant: str, name: str, after: int, limit: int) -> list[ChosenTurn]:
    """Return the next turns of a set behind a number, in the order in which they were added."""
    on = (threads.c.thread_id == of.thread_id) & (threads.c.tenant == of.tenant)
    title = func.coalesce(threads.c.title, threads.c.prompt)
    query = select(*statements.NAME, of.number, of.turn_id, title.label("titled"), of.added_at)
    query = query.join_from(dataset_turns, threads, on).where(_is(tenant, name), of.number > after)
    rows = await store.rows(query.order_by(of.number).limit(limit))
    return [ChosenTurn(row.number, thread_of(row).thread_id, row.turn_id, row.titled, row.added_at) for row in rows]


async def chosen_in(store: ThreadStore, key: ThreadKey, name: str, document: Fields) -> frozenset[str]:
    """Return the ids of the turns in a thread's document that are in a set of its tenant."""
    thread_id, tenant = id_and_tenant(key)
    named = [turn["meta:turn_id"] for turn in document["turns"] if isinstance(turn.get("meta:turn_id"), str)]
    ids = {_digest(tenant, name, thread_id, turn_text(turn_bytes(turn_id))): turn_id for turn_id in named}
    async with store.reading() as connection:
        return frozenset(ids[digest] for digest in await _known(connection, list(ids)))


async def _known(connection: AsyncConnection, ids: Sequence[str]) -> set[str]:
    """Return those of these ids of chosen turns that are stored."""
    known = set[str]()
    await certain(connection)
    for some in portions(ids):
        known.update(await connection.scalars(select(of.id).where(of.id.in_(some))))
    return known


async def add_turns(store: ThreadStore, key: ThreadKey, name: str, turn_id: str | None, now: int) -> int:
    """Add a turn of a thread to a set, or all of its turns; return how many were not there.

    Raises UnknownTurn, also if the thread is being deleted, and CallerError beyond the limits.
    """
    thread_id, tenant = id_and_tenant(key)
    async with store.writing() as connection:
        row = (await lock(connection, [key]))[key]  # waits for a deletion that is about to mark it
        query = select(turns.c.turn_id).where(turns.c.thread == row.id, turns.c.role != FACTS)
        if turn_id is not None:
            query = query.where(turns.c.turn_id == turn_bytes(turn_id))
        stored = map(turn_text, await connection.scalars(query.order_by(*statements.ORDER)))
        ids = {_digest(tenant, name, thread_id, each): each for each in stored}
        if not ids or await erased_of(connection, [key]):
            raise UnknownTurn(f"the thread has no turn {turn_id or ''!r:.200} to add: GET /v1/threads/ID has its turns")
        if connection.dialect.name == "postgresql":  # where two could count at the same moment
            await connection.execute(text("LOCK TABLE dataset_turns IN SHARE ROW EXCLUSIVE MODE"))
        known = await _known(connection, list(ids))
        counted = select(func.count(), func.coalesce(func.max(of.number), 0)).where(_is(tenant, name))
        [(count, last)] = await connection.execute(counted)
        new = [{"id": digest, "turn_id": each} for digest, each in ids.items() if digest not in known]
        if count + len(new) > DATASET_TURNS:
            raise CallerError(f"a data set has at most {DATASET_TURNS:,} turns, and {name!r} {count:,}: take some out")
        sets = select(func.count(of.dataset.distinct())).where(of.tenant == tenant)
        if not count and (await connection.scalar(sets) or 0) >= DATASETS:
            raise CallerError(f"there are {DATASETS} data sets already: delete a set, or add to a set that is there")
        same = {"tenant": tenant, "dataset": name, "thread_id": thread_id, "added_at": now}
        rows = [{**same, **each, "number": number} for number, each in enumerate(new, last + 1)]
        if rows:
            await connection.execute(insert(dataset_turns), rows)
        return len(rows)


async def take_out(store: ThreadStore, key: ThreadKey, name: str, turn_id: str | None) -> int:
    """Take a turn of a thread out of a set, or all of its turns; return how many were there."""
    which = [] if turn_id is None else [of.turn_id == column_text(turn_id)]
    return await store.change(delete(dataset_turns).where(_in(key, name), *which))


async def drop_dataset(store: ThreadStore, tenant: str, name: str) -> int:
    """Delete a set of a tenant; return how many turns it had, 0 if there is none."""
    return await store.change(delete(dataset_turns).where(_is(tenant, name)))


async def leave_datasets(connection: AsyncConnection, keys: Iterable[ThreadKey], _: str) -> None:
    """Take all turns of threads out of all sets."""
    for some in portions(sorted(map(id_and_tenant, keys))):
        await connection.execute(delete(dataset_turns).where(row_one_of((of.thread_id, of.tenant), some)))


async def forget_datasets(store: ThreadStore, tenant: str) -> None:
    """Delete the data sets of a tenant, "" for none."""
    await store.change(delete(dataset_turns).where(of.tenant == (column_text(tenant) or "")))


def _is(tenant: str, name: str) -> ColumnElement[bool]:
    return and_(of.tenant == (column_text(tenant) or ""), of.dataset == name)


def _in(key: ThreadKey, name: str) -> ColumnElement[bool]:
    thread_id, tenant = id_and_tenant(key)
    return and_(of.thread_id == thread_id, of.tenant == tenant, of.dataset == name)


def _digest(*names: str) -> str:
    return hashlib.sha256(json_text.dumps(names).encode()).hexdigest()[:32]
