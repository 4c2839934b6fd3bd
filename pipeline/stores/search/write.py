"""The words of turns, written within the caller's transaction.

They are written together with new turns, and in steps for turns that a store role with TURNMILL_SEARCH=off has written.
A turn whose words are written is marked as `searched`.

The words of a row keep their order, have prefixes for their kind (`pipeline.stores.search.query`), and are followed by
those for tenant, agent, role and the called tools. SQLite's FTS5 reads them as they are; Postgres stores them with
their positions as a tsvector.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.engine import search_choice
from pipeline.stores.database.schema import UNSEARCHED, turn_words, turns
from pipeline.stores.database.sending import Call, send
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.query import BEFORE, BORDER, called, facet
from pipeline.stores.threads.labels import labels_in
from pipeline.stores.threads.rows import RecordRows, record_of, record_rows
from pipeline.stores.threads.table_that_follows import PlacedTurn
from pipeline.turns.column_text import column_text
from pipeline.turns.searched_text import KINDS, Kind, spoken, tools_called, words
from topics import json_text

CHOICES: Final[dict[str, tuple[Kind, ...]]] = {"on": KINDS[:1], "all": KINDS, "off": ()}

MAX_CHARACTERS: Final = 20_000  # of a turn, of each kind, that are searched
MAX_TOOLS: Final = 500  # called tools by which a turn is found
INDEXED_BATCH: Final = 100  # turns whose words are written in a transaction
UNSEARCHED_TURNS: Final = (
    select(turns.c.id, turns.c.thread, turns.c.record)
    .where(UNSEARCHED)
    .order_by(turns.c.id.desc())
    .with_for_update(skip_locked=True)
)
SEARCHED_TURNS: Final = select(turn_words.c.id).order_by(turn_words.c.id)
_ADD: Final = (  # for all rows at once: half the work of a statement per row
    "INSERT INTO turn_words (id, tenant, words) SELECT id, tenant, CAST(words AS tsvector) "
    "FROM unnest($1::bigint[], $2::text[], $3::text[]) AS given (id, tenant, words)"
)
_ADD_SQLITE: Final = "INSERT INTO turn_words (id, tenant, words) VALUES (?, ?, ?)"
# In the order of ids: at an id below the previous id, FTS5 begins a new part of its index.
_INDEX_SQLITE: Final = (
    "INSERT INTO turn_words_index(rowid, words) "
    "SELECT id, words FROM turn_words WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
)


def kinds_of(connection: AsyncConnection) -> tuple[Kind, ...]:
    """Return the kinds of text that the words of a turn are taken from."""
    return CHOICES[search_choice(connection)]


async def word_calls(connection: AsyncConnection, turns: Sequence[PlacedTurn], _: object = None) -> list[Call]:
    """Return the calls that add the words of these turns; executed after those that add the turns."""
    kinds, dialect = kinds_of(connection), connection.dialect.name
    ids, tenants, texts = list[int](), list[str](), list[list[str]]()
    for id_, _, rows in turns if kinds else ():
        if words := search_words(rows, kinds):
            ids.append(id_)
            tenants.append(column_text(rows.thread.tenant) or "")
            texts.append(words)
    if not ids:
        return []
    if dialect == "postgresql":
        return [Call(_ADD, (ids, tenants, [tsvector(some) for some in texts]))]
    # No trigger adds new rows to the index: FTS5 writes what it has gathered at each row of a trigger, which costs
    # three times as much as all rows of a transaction at once.
    values = list(zip(ids, tenants, map(" ".join, texts), strict=True))
    return [Call(_ADD_SQLITE, values, many=True), Call(_INDEX_SQLITE, (json_text.dumps(ids),))]


def search_words(rows: RecordRows, kinds: Sequence[Kind]) -> list[str]:
    """Return the words of a record, then its tenant, agent, role and tools; nothing if the turn has no text."""
    spoken_words = row_words(rows.record["turn"], kinds)
    if not spoken_words:
        return []
    tenant, agent_id = column_text(rows.thread.tenant) or "", column_text(rows.record["agent_id"])
    tools = sorted({*map(called, tools_called(rows.record["turn"]))})
    labels = [facet(label.kind, label.label) for label in labels_in(rows.record)]
    return [*spoken_words, BORDER, *facets(tenant, agent_id, rows.turn["role"]), *labels, *tools[:MAX_TOOLS]]


def row_words(document: Mapping[str, Any] | None, kinds: Sequence[Kind]) -> list[str]:
    """Return the words of a turn."""
    marked: list[str] = []
    for kind, text in searched_texts(document, kinds):
        some = words(text)
        if marked and some:
            marked.append(BORDER)
        marked += [BEFORE[kind] + word for word in some] if BEFORE[kind] else some
    return marked


def searched_texts(document: Mapping[str, Any] | None, kinds: Sequence[Kind]) -> Iterator[tuple[Kind, str]]:
    """Yield the searched texts of a turn: of each kind the first MAX_CHARACTERS."""
    room = dict.fromkeys(kinds, MAX_CHARACTERS)
    for kind, text in spoken(document):
        left = room.get(kind, 0)
        if left > 0:
            room[kind] = left - len(text)
            yield kind, text[:left]


def facets(tenant: str | None, agent_id: str | None, role: int | None) -> list[str]:
    """Return the words in the index for these; None stands for any."""
    given = (("t", tenant), ("a", agent_id), ("r", None if role is None else str(role)))
    return [facet(name, value) for name, value in given if value is not None]


def tsvector(words: Sequence[str]) -> str:
    """Return the words as the text of a tsvector; Postgres limits a word's positions to 256, none beyond 16,383."""
    return " ".join([f"{word}:{number}" for number, word in enumerate(words, 1) if word != BORDER])


async def forget_words(connection: AsyncConnection, ids: Iterable[int]) -> None:
    """Delete the words of these turns."""
    await connection.execute(delete(turn_words).where(turn_words.c.id.in_(sorted(ids))))


async def index_some(store: ThreadStore, most: int = INDEXED_BATCH) -> int:
    """See `index_words`, in a transaction of its own; several processes may call it."""
    return await store.completed(partial(index_words, most=most))


async def index_words(connection: AsyncConnection, most: int) -> int:
    """Write the words of the newest turns that lack them, or delete some if search is off; return how many turns."""
    if not kinds_of(connection):
        ids = list(await connection.scalars(SEARCHED_TURNS.limit(most)))
        if ids:
            await forget_words(connection, ids)
            await connection.execute(update(turns).where(turns.c.id.in_(ids)).values(searched=False))
        return len(ids)
    rows = (await connection.execute(UNSEARCHED_TURNS.limit(most))).all()
    if rows:
        ids = [id_ for id_, _, _ in rows]
        await connection.execute(update(turns).where(turns.c.id.in_(ids)).values(searched=True))
        placed = [PlacedTurn(id_, thread, record_rows(record_of(stored))) for id_, thread, stored in rows]
        await send(connection, await word_calls(connection, placed))
    return len(rows)
