"""A book: some tables of the store, and what is done with them. `stores.tables_that_follow` lists all of them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.sending import Call
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.rows import RecordRows
from topics.thread_key import ThreadKey

Count = Callable[[AsyncConnection, str], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table.

    `holds`: its columns with content or identities of people; `ours`: other non-numeric columns, with data of our
    own. `left`: how many rows have something of a tenant, "" for none; without it `erased` says why no row can be left.
    """

    table: str
    erased: str
    stays: str
    holds: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    left: Count | None = None


class PlacedTurn(NamedTuple):
    """A turn that is written: its integer, that of its thread, and its record."""

    id: int
    thread: int
    rows: RecordRows


@dataclass(frozen=True, slots=True)
class Book:
    """Tables that change together; all but `forget_tenant` happens within the caller's transaction.

    `calls`: those that add the rows of turns. `replaced`: deletes the rows of turns, given with their threads, as
    integers; `calls` is given what it returned, and may empty it. `deleted`: the same for all turns of threads that
    are deleted, with the reason; what foreign keys delete may stay. Both may return integers of rows that turns share:
    `unused` deletes those of them that no row refers to any more. `forget_tenant`: deletes what is a tenant's, and no
    thread's; "" means data without a tenant.

    The order of books is the order in which writers, and deletions, lock rows that turns share.
    """

    tables: tuple[TablePlace, ...]
    calls: Callable[[AsyncConnection, Sequence[PlacedTurn], Any], Awaitable[Sequence[Call]]] | None = None
    replaced: Callable[[AsyncConnection, Mapping[int, int]], Awaitable[Any]] | None = None
    deleted: Callable[[AsyncConnection, Sequence[ThreadKey], str], Awaitable[Any]] | None = None
    unused: Callable[[AsyncConnection, Any], Awaitable[None]] | None = None
    forget_tenant: Callable[[ThreadStore, str], Awaitable[Any]] | None = None
