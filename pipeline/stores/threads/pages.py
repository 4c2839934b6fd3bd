"""Reading a long thread piece by piece: a page of its turns, or its whole document, with a piece in memory at a time.

Of a thread that may fork, all records are read for the positions of their runs (`pipeline.turns.run_tree`), since any
two may be versions of each other, and only some names are kept. Of all others a page reads the records of its turns.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from sqlalchemy import Row, Select, or_, select
from sqlalchemy import tuple_ as row_of
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.held_and_erased import erased_of
from pipeline.stores.database.keys import id_and_tenant, turn_bytes
from pipeline.stores.database.schema import links, threads, turns
from pipeline.stores.database.sending import certain, portions
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.rows import FACTS, record_of, without_links
from pipeline.stores.threads.statements import ORDER, is_thread, records_by_id
from pipeline.turns.branches import BRANCH, Run, UnknownBranch, add_turn, one_branch, run_name
from pipeline.turns.column_text import column_text
from pipeline.turns.run_tree import Marks, marked, marks_of
from pipeline.turns.thread_document import DocumentHead, UnknownTurn, outgoing, position, relationships
from pipeline.turns.times import iso
from topics.json_text import Fields
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord

PAGE: Final = 50  # turns, unless a caller wants more or fewer
MAX_PAGE: Final = 1_000
PIECE: Final = 500  # records that are read at once where all of a thread are
MAX_LINKS: Final = 1_000  # records, the newest, whose links to other threads a document has
MAX_FACTS: Final = 100  # records without turn, the newest, whose facts a page has
Made = TypeVar("Made")
PLACED: Final = ("turn_type", "meta:turn_id", "meta:run_id", "meta:parent")  # what `one_branch` asks of a turn


@dataclass(frozen=True, slots=True)
class PageWanted:
    """The `last` turns; those before the turn `before`; the first ones after the turn `after`; or between both.

    `after` empty: from the beginning. `branch`: of the branch with this run; empty: the newest; None: of all.
    """

    last: int = PAGE
    before: str | None = None
    after: str | None = None
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A document with some turns. `previous`, `next`: for `before`, `after`; None where there are no more turns.

    Agents and metadata are those of its turns' records; title and times are the thread's.
    """

    document: Fields
    previous: str | None
    next: str | None


@dataclass(frozen=True, slots=True)
class Whole:
    """A document without its turns; `tag` changes with its content; `turns` gives them piece by piece."""

    head: Fields
    relationships: Fields
    tag: str
    turns: Callable[[], AsyncIterator[list[Fields]]]


async def read_page(store: ThreadStore, key: ThreadKey, wanted: PageWanted) -> Page | None:
    """Return a page of a thread; None if it is not stored. Raises UnknownTurn and UnknownBranch."""
    async with store.snapshot() as connection:
        thread = await _thread(connection, key)
        if thread is None:
            return None
        marks: Marks = {}
        if thread.may_fork:
            marks, (texts, is_cut) = await _of_branches(connection, thread.id, wanted)
        else:
            texts, is_cut = await _in_order(connection, thread.id, wanted)
        facts = select(turns.c.record).where(turns.c.thread == thread.id, turns.c.role == FACTS)
        facts = facts.order_by(*(column.desc() for column in ORDER)).limit(MAX_FACTS)
        stated = list(await connection.scalars(facts))
        linked = await _relationships(connection, key)
    records, document = await asyncio.to_thread(_document, key, stated, texts, marks)
    if column_text(document.get("title")) != thread.title and thread.title:
        document["title"] = thread.title
    times = {"created_at": iso(thread.created_at), "updated_at": iso(thread.updated_at)}
    forward, bounded = wanted.after is not None, bool(wanted.before)
    before, behind = (bool(wanted.after), is_cut or bounded) if forward else (is_cut, bounded)
    return Page(
        {**document, **times, **linked},
        records[0]["turn_id"] if before and records else None,
        records[-1]["turn_id"] if behind and records else None,
    )


async def read_whole(store: ThreadStore, key: ThreadKey) -> Whole | None:
    """Return a thread's document, of which the turns are still to be read; None if it is not stored."""
    head, runs, digest = DocumentHead(), dict[str, Run](), hashlib.sha256()
    async with store.snapshot() as connection:
        thread = await _thread(connection, key)
        if thread is None:
            return None

        def add(rows: Sequence[Row[Any]]) -> None:
            for row in rows:
                digest.update(row.record)
                record = record_of(row.record)
                head.add(record)
                if thread.may_fork and record["turn"] is not None:
                    add_turn(runs, record, record["turn"])

        async for rows in _pieces(connection, thread.id):
            await asyncio.to_thread(add, rows)
        linked = await _relationships(connection, key)
    marks = await asyncio.to_thread(marks_of, runs)
    digest.update(repr(linked).encode())

    def turns_of(rows: Sequence[Row[Any]]) -> list[Fields]:
        records = [record_of(row.record) for row in rows]
        return [marked(record, record["turn"], marks) for record in records if record["turn"] is not None]

    pieces = partial(_made, store, thread.id, turns_of)
    return Whole(head.fields(key.thread_id), linked, digest.hexdigest()[:32], pieces)


async def derived_of(store: ThreadStore, key: ThreadKey, derive: Callable[[TurnRecord], Made]) -> AsyncIterator[Made]:
    """Yield what is derived of each record of a thread, in order, with a piece of the thread in memory at a time."""
    thread = next(iter(await store.rows(select(threads.c.id).where(is_thread(key)))), None)
    if thread is not None:
        async for some in _made(store, thread.id, lambda rows: [derive(record_of(row.record)) for row in rows]):
            for each in some:
                yield each


async def _made(
    store: ThreadStore, thread: int, make: Callable[[Sequence[Row[Any]]], list[Made]]
) -> AsyncIterator[list[Made]]:
    """Yield what is made of all turns of a thread, piece by piece; no connection is held while a caller has a piece."""
    place: Sequence[Any] | None = None
    while rows := await store.rows(_piece(thread, place)):
        yield await asyncio.to_thread(make, rows)
        place = rows[-1][2:]


async def _thread(connection: AsyncConnection, key: ThreadKey) -> Any:
    await certain(connection)
    columns = (threads.c.id, threads.c.title, threads.c.created_at, threads.c.updated_at, threads.c.may_fork)
    return (await connection.execute(select(*columns).where(is_thread(key)))).first()


def _document(
    key: ThreadKey, stated: Sequence[bytes], texts: Sequence[bytes], marks: Marks
) -> tuple[list[TurnRecord], Fields]:
    """Return the records of turns, and their document."""
    records, head = list(map(record_of, texts)), DocumentHead()
    for record in sorted((*map(record_of, stated), *records), key=position):
        head.add(record)
    shown = [marked(record, record["turn"], marks) for record in records if record["turn"] is not None]
    return records, {**head.fields(key.thread_id), "turns": shown}


async def _in_order(connection: AsyncConnection, thread: int, wanted: PageWanted) -> tuple[list[bytes], bool]:
    """Return the records of a page of a thread that does not fork, and True if the page's size has cut it."""
    if wanted.branch:
        names = or_(turns.c.turn_id == turn_bytes(wanted.branch), turns.c.run_id == column_text(wanted.branch))
        if await connection.scalar(select(turns.c.id).where(turns.c.thread == thread, names).limit(1)) is None:
            raise UnknownBranch(f"no run or turn of this thread is called {wanted.branch!r:.200}")
    forward = wanted.after is not None
    query = select(turns.c.record).where(turns.c.thread == thread, turns.c.role != FACTS)
    if wanted.after:
        query = query.where(row_of(*ORDER) > row_of(*await _place_of(connection, thread, wanted.after)))
    if wanted.before:
        query = query.where(row_of(*ORDER) < row_of(*await _place_of(connection, thread, wanted.before)))
    query = query.order_by(*ORDER if forward else [column.desc() for column in ORDER]).limit(wanted.last + 1)
    texts = list(await connection.scalars(query))
    is_cut, texts = len(texts) > wanted.last, texts[: wanted.last]
    return texts if forward else texts[::-1], is_cut


async def _place_of(connection: AsyncConnection, thread: int, turn_id: str) -> Any:
    query = select(*ORDER).where(turns.c.thread == thread, turns.c.turn_id == turn_bytes(turn_id))
    place = (await connection.execute(query)).first()
    if place is None:
        raise UnknownTurn(f"no turn of this thread is called {turn_id!r:.200}")
    return place


async def _of_branches(
    connection: AsyncConnection, thread: int, wanted: PageWanted
) -> tuple[Marks, tuple[list[bytes], bool]]:
    """Return the marks of all runs of a thread, and as `_in_order` the records of a page."""
    runs, outline = dict[str, Run](), list[tuple[str, Fields]]()

    def add(rows: Sequence[Row[Any]]) -> None:
        for row in rows:
            record = record_of(row.record)
            turn = record["turn"]
            if turn is not None:
                add_turn(runs, record, turn)
                placed: Fields = {key: turn[key] for key in PLACED if key in turn}
                outline.append((run_name(record, turn), {**placed, "id": row.id, "turn_id": record["turn_id"]}))

    async for rows in _pieces(connection, thread):
        await asyncio.to_thread(add, rows)

    def chosen() -> tuple[Marks, list[int], bool]:
        marks = marks_of(runs)
        shown = [{**turn, BRANCH: marks[name]} if marks else turn for name, turn in outline]
        if wanted.branch is not None:
            shown = one_branch({"turns": shown}, wanted.branch)["turns"]
        places = {turn["turn_id"]: place for place, turn in enumerate(shown)}
        for turn_id in filter(None, (wanted.after, wanted.before)):
            if turn_id not in places:
                raise UnknownTurn(f"no turn of this branch is called {turn_id!r:.200}")
        begin, end = places.get(wanted.after or "", -1) + 1, places.get(wanted.before or "", len(shown))
        shown = shown[begin:end]
        page = shown[-wanted.last :] if wanted.after is None else shown[: wanted.last]
        return marks, [turn["id"] for turn in page], len(shown) > len(page)

    marks, ids, is_cut = await asyncio.to_thread(chosen)
    texts = dict[int, bytes]()
    for some in portions(ids):
        texts.update(tuple(row) for row in await connection.execute(records_by_id(some)))
    return marks, ([texts[number] for number in ids], is_cut)


async def _pieces(connection: AsyncConnection, thread: int) -> AsyncIterator[Sequence[Row[Any]]]:
    """Yield id, record and place of all turns of a thread, in order."""
    place: Sequence[Any] | None = None
    while rows := (await connection.execute(_piece(thread, place))).all():
        yield rows
        place = rows[-1][2:]


def _piece(thread: int, behind: Sequence[Any] | None) -> Select[Any]:
    query = select(turns.c.id, turns.c.record, *ORDER).where(turns.c.thread == thread).order_by(*ORDER).limit(PIECE)
    return query if behind is None else query.where(row_of(*ORDER) > row_of(*behind))


async def _relationships(connection: AsyncConnection, key: ThreadKey) -> Fields:
    """Return the links that records of its tenant state of a thread, without those to erased threads."""
    thread_id, tenant = id_and_tenant(key)
    stating = select(links.c.turn).where(links.c.source == thread_id)
    mine = select(turns.c.record).join(threads, turns.c.thread == threads.c.id).where(threads.c.tenant == tenant)
    query = mine.where(turns.c.id.in_(stating)).order_by(turns.c.id.desc()).limit(MAX_LINKS)
    texts = list(await connection.scalars(query))
    if not texts:
        return {}
    records = await asyncio.to_thread(lambda: sorted(map(record_of, texts), key=position))
    targets = {ThreadKey(link["thread_id"], key.tenant) for record in records for _, link in outgoing(record)}
    erased = {thread.thread_id for thread in await erased_of(connection, targets)}
    return relationships(key.thread_id, [without_links(record, erased) for record in records])
