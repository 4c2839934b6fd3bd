"""Agents, labels, links, and requests to models: rows that are written with a turn, within the caller's transaction.

Each body of a request is stored once for its tenant, and each of its large members once.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, Table, delete, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Insert

from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.ids import DIGEST_BYTES, INSERT, forget_unused, ids_of, numbers_of
from pipeline.stores.database.keys import Agent, id_and_tenant
from pipeline.stores.database.schema import (
    agents,
    labels,
    links,
    request_members,
    request_values,
    requests,
    thread_agents,
    thread_labels,
    turn_requests,
)
from pipeline.stores.database.sending import Call, of_rows, portions, send
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import statements
from pipeline.stores.threads.labels import label_ids, labels_in
from pipeline.stores.threads.rows import Row, agents_of, record_of
from pipeline.stores.threads.table_that_follows import PlacedTurn
from pipeline.turns.column_text import column_text
from topics import json_text
from topics.json_text import Fields
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord


class Shared(NamedTuple):
    """Names that many threads have.

    `links`: the table of those with which threads have which name, in its first column, and in how many of their
    turns. `ids` returns the integers of names, and `of` the names in a record.
    """

    names: Table
    links: Table
    ids: Callable[[AsyncConnection, Iterable[Any]], Awaitable[Mapping[Any, int]]]
    of: Callable[[TurnRecord], Iterable[Any]]

    @property
    def name(self) -> Column[Any]:
        """The integer of a name in `links`."""
        return self.links.c[0]

    @property
    def used(self) -> ColumnElement[bool]:
        """The condition that any thread has a name."""
        return exists().where(self.name == self.names.c.id)

    def in_book(self) -> dict[str, Any]:
        """Return the functions of a book with both tables."""
        return {
            "calls": partial(name_calls, shared=self),
            "replaced": partial(names_before, shared=self),
            "deleted": partial(delete_names, shared=self),
            "unused": partial(forget_names, shared=self),
        }


Uses = Counter[tuple[Any, int]]  # in how many turns of a thread a name is


async def link_calls(connection: AsyncConnection, turns: Sequence[PlacedTurn], _: object = None) -> list[Call]:
    """Return the call that adds the links of these turns."""
    rows = [{"turn": turn.id, **link} for turn in turns for link in turn.rows.links]
    return [of_rows(connection.dialect.name, statements.ADD[links], rows)] if rows else []


async def delete_links(connection: AsyncConnection, turns: Mapping[int, int]) -> None:
    """Delete the links of turns that are replaced."""
    await connection.execute(statements.delete_children(links, sorted(turns)))


async def name_calls(
    connection: AsyncConnection, turns: Sequence[PlacedTurn], fewer: Uses | None = None, *, shared: Shared
) -> list[Call]:
    """Return the calls that count in how many turns names are; `fewer`: those of the records that are replaced."""
    change = Uses()
    for turn in turns:
        for name in shared.of(turn.rows.record):
            change[name, turn.thread] += 1
    change.subtract(fewer or {})
    if fewer is not None:
        fewer.clear()  # the names that are in no turn any more are forgotten here
    changed = {key: count for key, count in change.items() if count}
    if not changed:
        return []
    ids = await shared.ids(connection, map(itemgetter(0), changed))
    counts = {(ids[name], thread): count for (name, thread), count in changed.items()}
    call = statements.add_names(connection.dialect.name, shared.links, counts)
    gone = sorted({thread for (_, thread), count in counts.items() if count < 0})
    if not gone:
        return [call]
    await send(connection, [call])
    unused = delete(shared.links).where(shared.links.c.thread.in_(gone), shared.links.c.turns <= 0)
    await forget_names(connection, await connection.scalars(unused.returning(shared.name)), shared=shared)
    return []


async def names_before(connection: AsyncConnection, turns: Mapping[int, int], *, shared: Shared) -> Uses:
    """Return how often each name is in turns that are replaced."""
    uses, mine = Uses(), shared.links.c.thread.in_(sorted(set(turns.values())))
    if await connection.scalar(select(shared.name).where(mine).limit(1)) is not None:
        for id_, record in await connection.execute(statements.records_by_id(sorted(turns))):
            uses.update((name, turns[id_]) for name in shared.of(record_of(record)))
    return uses


async def delete_names(connection: AsyncConnection, keys: Sequence[ThreadKey], _: str, *, shared: Shared) -> set[int]:
    """Delete these threads' links to names; return the names, which other threads may have, too."""
    gone = set[int]()
    for key in keys:
        of_thread = delete(shared.links).where(shared.links.c.thread == statements.number_of(key))
        gone.update(await connection.scalars(of_thread.returning(shared.name)))
    return gone


async def forget_names(connection: AsyncConnection, ids: Iterable[int], *, shared: Shared) -> None:
    """Delete those of these names that no thread has any more."""
    await forget_unused(connection, shared.names, ids, (shared.used,))


async def _agent_ids(connection: AsyncConnection, wanted: Iterable[Agent]) -> dict[Agent, int]:
    return await ids_of(connection, Agent, wanted)


OF_AGENTS: Final = Shared(agents, thread_agents, _agent_ids, agents_of)
OF_LABELS: Final = Shared(labels, thread_labels, label_ids, labels_in)

HASH: Final = re.compile("[0-9a-f]{64}")
ASKED: Final = exists().where(turn_requests.c.request == requests.c.id)
HAD: Final = exists().where(request_members.c.value == request_values.c.id)
SEPARATE_BYTES: Final = 512  # from which on a member is stored separately


async def request_bodies(
    store: ThreadStore, names: Collection[str], tenant: str | None = None, most: float = math.inf
) -> dict[str, Fields]:
    """Return the stored bodies with these hashes, of any tenant or of `tenant`, "" for none.

    A large member that several of them have is the same object. Raises StoreError, also if they have more than `most`
    bytes together.
    """
    wanted = sorted({bytes.fromhex(name) for name in names if HASH.fullmatch(name)})
    bodies: dict[str, Fields] = {}
    size = 0
    async with store.reading() as connection:
        for some in portions(wanted):
            query = select(requests.c.id, requests.c.sha256, requests.c.body).where(requests.c.sha256.in_(some))
            if tenant is not None:
                query = query.where(requests.c.tenant == (column_text(tenant) or ""))
            rows = {row.id: row for row in await connection.execute(query)}
            links = await _links(connection, rows)
            size += sum(len(row.body) for row in rows.values()) + sum(link.size for link in links)
            if size > most:
                raise StoreError(f"the requests of the thread have more than {most:,} bytes")
            large = await _large(connection, links)
            for id_, row in rows.items():
                bodies[bytes(row.sha256).hex()] = {**json_text.loads(row.body), **large.get(id_, {})}
    return bodies


@dataclass(frozen=True)
class _Body:
    """A tenant's body with its hash."""

    tenant: str
    name: str
    body: Fields

    @cached_property
    def digest(self) -> bytes:
        return _digest(self.tenant, self.name)

    @cached_property
    def large(self) -> dict[str, str]:
        """The JSON texts of its large members, by names that every database can store."""
        texts = {name: json_text.dumps(value) for name, value in self.body.items() if name.isidentifier()}
        return {name: text for name, text in texts.items() if len(text) >= SEPARATE_BYTES}

    @property
    def small(self) -> Fields:
        """The body without its large members."""
        return {name: value for name, value in self.body.items() if name not in self.large}


@dataclass(frozen=True)
class _Value:
    """A tenant's member of any body."""

    tenant: str
    text: str

    @cached_property
    def digest(self) -> bytes:
        return _digest(self.tenant, self.text)


def _digest(tenant: str, text: str) -> bytes:
    return hashlib.sha256(json_text.dumps([tenant, text]).encode()).digest()[:DIGEST_BYTES]


async def _links(connection: AsyncConnection, ids: Iterable[int]) -> Sequence[Any]:
    """Return the links of these requests to their large members: request, name, value, and the value's size."""
    members, values = request_members, request_values
    sized = select(members.c.request, members.c.name, members.c.value, func.length(values.c.value).label("size"))
    of_requests = sized.join(values, values.c.id == members.c.value).where(members.c.request.in_(list(ids)))
    return (await connection.execute(of_requests)).all()


async def _large(connection: AsyncConnection, links: Sequence[Any]) -> dict[int, Fields]:
    """Return the large members of requests, by request; each value is read once."""
    values: dict[int, Any] = {}
    for some in portions(sorted({link.value for link in links})):
        query = select(request_values.c.id, request_values.c.value).where(request_values.c.id.in_(some))
        values.update({id_: json_text.loads(text) for id_, text in await connection.execute(query)})
    by_request: dict[int, Fields] = {}
    for link in links:
        by_request.setdefault(link.request, {})[link.name] = values[link.value]
    return by_request


async def request_calls(connection: AsyncConnection, placed: Iterable[PlacedTurn], _: object = None) -> list[Call]:
    """Return the call that adds these turns' references; store missing bodies, and lock existing bodies."""
    named: dict[tuple[str, str], _Body] = {}  # by tenant and hash: most turns of a batch refer to the same few
    uses: list[tuple[int, tuple[str, str]]] = []
    for turn in placed:
        for name, body in turn.rows.requests.items():
            if HASH.fullmatch(name) and isinstance(body, dict):
                key = id_and_tenant(turn.rows.thread)[1], name
                if key not in named:
                    named[key] = _Body(*key, body)
                uses.append((turn.id, key))
    if not uses:
        return []
    bodies = {body.digest: body for body in named.values()}
    new: dict[bytes, _Body] = {}

    def row(body: _Body) -> Row:
        new[body.digest] = body
        return {"sha256": bytes.fromhex(body.name), "tenant": body.tenant, "body": json_text.dumps(body.small)}

    known = await numbers_of(connection, requests, bodies, row)
    if new:
        await _add_members(connection, {known[digest]: body for digest, body in new.items()})
    rows = [{"turn": id_, "request": known[named[key].digest]} for id_, key in uses]
    return [of_rows(connection.dialect.name, statements.ADD[turn_requests], rows)]


async def forget_requests(connection: AsyncConnection, ids: Iterable[int]) -> None:
    """Delete those of these requests that no turn refers to any more, with values that no other request has."""
    wanted, values = sorted(set(ids)), set[int]()
    for some in portions(wanted):
        of_them = select(request_members.c.value).where(request_members.c.request.in_(some)).distinct()
        values.update(await connection.scalars(of_them))
    await forget_unused(connection, requests, wanted, (ASKED,))
    await forget_unused(connection, request_values, values, (HAD,))


async def _add_members(connection: AsyncConnection, new: Mapping[int, _Body]) -> None:
    """Store the large members of new requests, which another writer may have stored at the same time."""
    uses = [
        (request, name, _Value(body.tenant, text)) for request, body in new.items() for name, text in body.large.items()
    ]
    values = {value.digest: value for _, _, value in uses}
    known = await numbers_of(
        connection, request_values, values, lambda value: {"tenant": value.tenant, "value": value.text}
    )
    rows = [{"request": request, "name": name, "value": known[value.digest]} for request, name, value in uses]
    if rows:
        dialect = connection.dialect.name
        await send(connection, [of_rows(dialect, _add(dialect), sorted(rows, key=itemgetter("request", "name")))])


@cache
def _add(dialect: str) -> Insert:
    statement: Insert = INSERT[dialect](request_members).on_conflict_do_nothing()
    return statement
