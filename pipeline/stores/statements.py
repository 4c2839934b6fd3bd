"""The SQL of ThreadStore, as SQLAlchemy expressions that both databases take. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Delete,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    union_all,
    update,
)
from sqlalchemy import tuple_ as row_of
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert

from pipeline.stores.bounded_sum import BoundedSum
from pipeline.stores.keys import among, key_text, older_text, own
from pipeline.stores.one_of import one_of
from pipeline.stores.schema import agents, erased, links, threads, turns, usage
from pipeline.turns.thread_document import GIVEN_UP
from topics.thread_key import ThreadKey

ORDER: Final = (turns.c.started_at, turns.c.role, turns.c.run_id, turns.c.ordinal, turns.c.turn_id)
FACTS: Final = 2  # the role of a record without turn
INSERT: Final[dict[str, Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
ADD_CHILDREN: Final = {table: insert(table) for table in (agents, links, usage)}


@cache
def add_threads(dialect: str) -> Insert:
    """Executed with rows {"thread_key"}: inserts those that are missing."""
    statement: Insert = INSERT[dialect](threads).on_conflict_do_nothing()
    return statement


def lock_threads(texts: Sequence[str]) -> Select[Any]:
    """Lock these threads in the order of keys -> thread_key, tenant of those that are there. Writers of the same thread
    wait here (SQLite has one writer anyway).
    """
    wanted = select(threads.c.thread_key, threads.c.tenant).where(one_of(threads.c.thread_key, texts))
    return wanted.order_by(threads.c.thread_key).with_for_update()


def add_erased(dialect: str) -> Insert:
    """Executed with rows {"thread_key", "erased_at", "exact"}: marks those that are not marked yet."""
    statement: Insert = INSERT[dialect](erased).on_conflict_do_nothing()
    return statement


def erased_threads(texts: Sequence[str]) -> Select[Any]:
    """-> thread_key, exact of those that are erased."""
    return select(erased.c.thread_key, erased.c.exact).where(one_of(erased.c.thread_key, texts))


def delete_empty(texts: Sequence[str]) -> Delete:
    """Deletes those of these threads that have no turn."""
    return delete(threads).where(
        one_of(threads.c.thread_key, texts), ~exists().where(turns.c.thread_key == threads.c.thread_key)
    )


def known_turns(turn_ids: Sequence[str]) -> Select[Any]:
    """-> thread_key, tenant, turn_id, and the parts of the rank: the number of events, and what decides behind it."""
    columns = turns.c.thread_key, turns.c.tenant, turns.c.turn_id, *_rank(turns.c)
    return select(*columns).where(one_of(turns.c.turn_id, turn_ids))


def _rank(columns: Any) -> tuple[ColumnElement[Any], ...]:
    """Without parameters: those of an INSERT are its columns."""
    reason = func.coalesce(columns.interruption, literal_column("''"))
    by_publisher = and_(*(reason != literal_column(f"'{given_up}'") for given_up in GIVEN_UP))
    complete = columns.status == literal_column("'complete'")
    return columns.events, complete, columns.revision, by_publisher, columns.digest


def facts_of(turn_ids: Sequence[str]) -> Select[Any]:
    """-> thread_key, turn_id, facts."""
    return select(turns.c.thread_key, turns.c.turn_id, turns.c.facts).where(one_of(turns.c.turn_id, turn_ids))


def document_of(text: str, turn_id: str) -> Select[Any]:
    """-> document."""
    return select(turns.c.document).where(turns.c.turn_id == turn_id, turns.c.thread_key == text)


@cache
def upsert_turns(dialect: str) -> Insert:
    """Executed with rows of `turns`: only a row that ranks higher replaces a stored turn. `write` has seen to it that
    the row holds all events of the stored one; this holds where another version of the store role doesn't lock.
    """
    new = INSERT[dialect](turns)
    statement: Insert = new.on_conflict_do_update(
        index_elements=[turns.c.turn_id, turns.c.thread_key],
        set_={column.name: new.excluded[column.name] for column in turns.c if not column.primary_key},
        where=row_of(*_rank(new.excluded)) > row_of(*_rank(turns.c)),
    )
    return statement


def refresh_threads(texts: Sequence[str]) -> Update:
    """Derive the rows of `threads` from their turns and usage again."""
    own_turns, own_usage = (table.c.thread_key == threads.c.thread_key for table in (turns, usage))
    return update(threads).where(one_of(threads.c.thread_key, texts)).values(derived(own_turns, own_usage))


def derived(own_turns: ColumnElement[bool], own_usage: ColumnElement[bool]) -> dict[str, ColumnElement[Any]]:
    """Columns of `threads` by name, from the turns and the usage of one thread."""
    real = turns.c.role != FACTS

    def newest(column: ColumnElement[Any], *where: ColumnElement[bool]) -> ColumnElement[Any]:
        latest = [part.desc() for part in ORDER]
        query = select(column).where(own_turns, column.is_not(None), *where).order_by(*latest).limit(1)
        return query.scalar_subquery()

    def over_turns(aggregate: Any, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """The aggregate over turns; over records of facts where a thread has no turn."""
        value = func.coalesce(aggregate(case((real, column))), aggregate(column), 0)
        return select(value).where(own_turns).scalar_subquery()

    last = select(turns.c.asked).where(own_turns, real).order_by(*(part.desc() for part in ORDER)).limit(1)
    first_prompt = select(turns.c.prompt).where(own_turns, turns.c.prompt.is_not(None)).order_by(*ORDER).limit(1)
    tokens = select(func.coalesce(BoundedSum(usage.c.total_tokens), 0)).where(own_usage)
    return {
        "external_id": newest(turns.c.external_id),
        "tenant": newest(turns.c.tenant),
        "title": newest(turns.c.title),
        "prompt": first_prompt.scalar_subquery(),
        "status": newest(turns.c.status, real),
        "asked": last.scalar_subquery(),
        "turns": select(func.count()).select_from(turns).where(own_turns, real).scalar_subquery(),
        "total_tokens": tokens.scalar_subquery(),
        "created_at": over_turns(func.min, turns.c.started_at),
        "updated_at": over_turns(func.max, turns.c.ended_at),
    }


def delete_children(table: Table) -> Delete:
    """Executed with rows {"of_thread", "of_turn"}: deletes the rows of `table` that belong to these turns."""
    return delete(table).where(table.c.turn_id == bindparam("of_turn"), table.c.thread_key == bindparam("of_thread"))


def records(keys: Sequence[ThreadKey]) -> CompoundSelect[Any]:
    """-> facts, document of all records of these threads, and of other threads' records that hold their links; perhaps
    also some of other tenants' threads.
    """
    texts = sorted({text for key in keys for text in (key_text(key), older_text(key))})
    place = row_of(turns.c.turn_id, turns.c.thread_key)
    linked = select(links.c.turn_id, links.c.thread_key).where(
        links.c.source.in_(texts), links.c.thread_key.not_in(texts)
    )
    columns = select(turns.c.facts, turns.c.document)
    return union_all(columns.where(among(turns, keys)), columns.where(place.in_(linked)))


def turn_usage(key: ThreadKey) -> Select[Any]:
    """-> rows of `usage` of a thread, in the order of each turn's responses."""
    return select(usage).where(own(usage, key)).order_by(usage.c.turn_id, usage.c.position)


def of_thread(key: ThreadKey) -> Select[Any]:
    """-> turn_id of a turn of this thread, where it has one."""
    return select(turns.c.turn_id).where(own(turns, key)).limit(1)


def some_facts(text: str, tenant: str | None) -> Select[Any]:
    """-> facts of one turn in this row of `threads`; of this tenant, in a row of an older version."""
    wanted = [] if tenant is None else [turns.c.tenant == tenant]
    return select(turns.c.facts).where(turns.c.thread_key == text, *wanted).limit(1)


def facts_in(key: ThreadKey) -> Select[Any]:
    """-> facts of each record of this thread."""
    return select(turns.c.facts).where(own(turns, key))


def hashes(key: ThreadKey) -> Select[Any]:
    """-> the canonical hash of each turn of this thread."""
    return select(turns.c.hash).where(own(turns, key), turns.c.hash.is_not(None))


def delete_turns(key: ThreadKey) -> Delete:
    """Deletes the turns of this thread."""
    return delete(turns).where(own(turns, key))


def run_ids(texts: Sequence[str]) -> Select[Any]:
    """-> thread_key, tenant, run_id of each run in these threads."""
    columns = turns.c.thread_key, turns.c.tenant, turns.c.run_id
    return select(*columns).where(turns.c.thread_key.in_(texts)).distinct()


def counts() -> Select[Any]:
    """-> one row: threads, turns, runs, interrupted."""
    runs = select(turns.c.thread_key, turns.c.tenant, turns.c.run_id).distinct().subquery()
    real = turns.c.role != FACTS
    cut = and_(turns.c.role == 1, turns.c.status == "interrupted")
    return select(
        select(func.count()).select_from(threads).scalar_subquery(),
        select(func.count()).select_from(turns).where(real).scalar_subquery(),
        select(func.count()).select_from(runs).scalar_subquery(),
        select(func.count()).select_from(turns).where(cut).scalar_subquery(),
    )
