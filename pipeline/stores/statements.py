"""The SQL of ThreadStore, as SQLAlchemy expressions that both databases take. Pure."""

from __future__ import annotations

from collections.abc import Sequence
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
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy import tuple_ as row_of
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert

from pipeline.stores.bounded_sum import BoundedSum
from pipeline.stores.schema import agents, erased, links, threads, turns, usage
from pipeline.stores.summaries import decode_cursor
from pipeline.turns.column_text import column_text
from pipeline.turns.thread_document import GIVEN_UP

ORDER: Final = (turns.c.started_at, turns.c.role, turns.c.run_id, turns.c.ordinal, turns.c.turn_id)
FACTS: Final = 2  # the role of a record without turn
INSERT: Final[dict[str, Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def add_threads(dialect: str) -> Insert:
    """Executed with rows {"thread_id"}: inserts those that are missing."""
    statement: Insert = INSERT[dialect](threads).on_conflict_do_nothing()
    return statement


def lock_threads(ids: Sequence[str]) -> Select[Any]:
    """Lock these threads in the order of ids: writers of the same thread wait here (SQLite has one writer anyway)."""
    wanted = select(threads.c.thread_id).where(threads.c.thread_id.in_(ids))
    return wanted.order_by(threads.c.thread_id).with_for_update()


def add_erased(dialect: str) -> Insert:
    """Executed with rows {"thread_id", "erased_at"}: marks those that are not marked yet."""
    statement: Insert = INSERT[dialect](erased).on_conflict_do_nothing()
    return statement


def erased_threads(ids: Sequence[str]) -> Select[Any]:
    """-> thread_id of those that are erased."""
    return select(erased.c.thread_id).where(erased.c.thread_id.in_(ids))


def delete_empty(ids: Sequence[str]) -> Delete:
    """Deletes those of these threads that have no turn."""
    return delete(threads).where(
        threads.c.thread_id.in_(ids), ~exists().where(turns.c.thread_id == threads.c.thread_id)
    )


def known_turns(turn_ids: Sequence[str]) -> Select[Any]:
    """-> thread_id, turn_id, and the five parts of the rank, as in `rows`."""
    return select(turns.c.thread_id, turns.c.turn_id, *_rank(turns.c)).where(turns.c.turn_id.in_(turn_ids))


def _rank(columns: Any) -> tuple[ColumnElement[Any], ...]:
    reason = func.coalesce(columns.interruption, "")
    by_publisher = and_(*(reason != given_up for given_up in GIVEN_UP))  # IN takes no executemany
    return columns.status == "complete", columns.events, columns.revision, by_publisher, columns.digest


def upsert_turns(dialect: str) -> Insert:
    """Executed with rows of `turns`: only a row that ranks higher, as in `rows`, replaces a stored turn."""
    new = INSERT[dialect](turns)
    statement: Insert = new.on_conflict_do_update(
        index_elements=[turns.c.turn_id, turns.c.thread_id],
        set_={column.name: new.excluded[column.name] for column in turns.c if not column.primary_key},
        where=row_of(*_rank(new.excluded)) > row_of(*_rank(turns.c)),
    )
    return statement


def refresh_threads(ids: Sequence[str]) -> Update:
    """Derive the rows of `threads` from their turns and usage again."""
    own = turns.c.thread_id == threads.c.thread_id
    real = turns.c.role != FACTS

    def newest(column: ColumnElement[Any], *where: ColumnElement[bool]) -> ColumnElement[Any]:
        latest = [part.desc() for part in ORDER]
        return select(column).where(own, column.is_not(None), *where).order_by(*latest).limit(1).scalar_subquery()

    def over_turns(aggregate: Any, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """The aggregate over turns; over records of facts where a thread has no turn."""
        value = func.coalesce(aggregate(case((real, column))), aggregate(column), 0)
        return select(value).where(own).scalar_subquery()

    first_prompt = select(turns.c.prompt).where(own, turns.c.prompt.is_not(None)).order_by(*ORDER).limit(1)
    tokens = select(func.coalesce(BoundedSum(usage.c.total_tokens), 0)).where(usage.c.thread_id == threads.c.thread_id)
    return (
        update(threads)
        .where(threads.c.thread_id.in_(ids))
        .values(
            external_id=newest(turns.c.external_id),
            tenant=newest(turns.c.tenant),
            title=newest(turns.c.title),
            prompt=first_prompt.scalar_subquery(),
            status=newest(turns.c.status, real),
            turns=select(func.count()).select_from(turns).where(own, real).scalar_subquery(),
            total_tokens=tokens.scalar_subquery(),
            created_at=over_turns(func.min, turns.c.started_at),
            updated_at=over_turns(func.max, turns.c.ended_at),
        )
    )


def delete_children(table: Table) -> Delete:
    """Executed with rows {"of_thread", "of_turn"}: deletes the rows of `table` that belong to these turns."""
    return delete(table).where(table.c.turn_id == bindparam("of_turn"), table.c.thread_id == bindparam("of_thread"))


def records(thread_ids: Sequence[str]) -> CompoundSelect[Any]:
    """-> facts, document of all records of these threads, and of other threads' records that hold their links."""
    linked = select(links.c.turn_id).where(links.c.source.in_(thread_ids), links.c.source != links.c.thread_id)
    columns = select(turns.c.facts, turns.c.document)
    return union_all(
        columns.where(turns.c.thread_id.in_(thread_ids)),
        columns.where(turns.c.turn_id.in_(linked), turns.c.thread_id.not_in(thread_ids)),
    )


def turn_usage(thread_id: str, tenant: str | None) -> Select[Any]:
    """-> turn_id, tokens, cost and time to the first token of each turn of a thread that has usage."""
    sums = [func.coalesce(BoundedSum(usage.c[name]), 0) for name in ("input_tokens", "output_tokens", "total_tokens")]
    first = func.max(case((usage.c.position == 0, usage.c.ttft_ms)))
    columns = [usage.c.turn_id, *sums, BoundedSum(usage.c.cost_nano_usd), first]
    own = [] if tenant is None else [usage.c.tenant == tenant]
    return select(*columns).where(usage.c.thread_id == thread_id, *own).group_by(usage.c.turn_id)


def thread_ids(after: str, limit: int) -> Select[Any]:
    """-> the next `limit` thread ids, in ascending order."""
    return select(threads.c.thread_id).where(threads.c.thread_id > after).order_by(threads.c.thread_id).limit(limit)


def run_ids(ids: Sequence[str]) -> Select[Any]:
    """-> thread_id, run_id of each run in these threads."""
    return select(turns.c.thread_id, turns.c.run_id).where(turns.c.thread_id.in_(ids)).distinct()


def thread_list(
    limit: int, cursor: str | None, agent_id: str | None, tenant: str | None, search: str | None
) -> Select[Any]:
    """-> rows of `threads`, the last updated first, one more than `limit`. Raises CallerError for a bad cursor."""
    query = select(threads).order_by(threads.c.updated_at.desc(), threads.c.thread_id.desc()).limit(limit + 1)
    if cursor is not None:
        query = query.where(row_of(threads.c.updated_at, threads.c.thread_id) < row_of(*decode_cursor(cursor)))
    if tenant is not None:
        query = query.where(threads.c.tenant == column_text(tenant))
    if agent_id is not None:
        has = and_(agents.c.thread_id == threads.c.thread_id, agents.c.agent_id == column_text(agent_id))
        query = query.where(exists().where(has))
    if search:
        texts = (threads.c.title, threads.c.prompt, threads.c.external_id, threads.c.thread_id)
        query = query.where(or_(*(text.icontains(column_text(search), autoescape=True) for text in texts)))
    return query


def narrowed(
    external_id: str | None, status: str | None, since: int | None, until: int | None
) -> list[ColumnElement[bool]]:
    """-> further conditions of a list of threads; times of the last update, in epoch ms."""
    conditions: list[ColumnElement[bool]] = []
    if external_id is not None:
        conditions.append(threads.c.external_id == column_text(external_id))
    if status is not None:
        conditions.append(threads.c.status == status)
    if since is not None:
        conditions.append(threads.c.updated_at >= since)
    if until is not None:
        conditions.append(threads.c.updated_at < until)
    return conditions


def of_tenant(tenant: str | None) -> list[ColumnElement[bool]]:
    """-> the condition that a thread is this tenant's; empty for None, which is all tenants."""
    return [] if tenant is None else [threads.c.tenant == column_text(tenant)]


def spawned_from(thread_id: str, limit: int) -> Select[Any]:
    """-> rows of `threads` with a `spawned_from` link to this thread, the oldest first."""
    spawned = select(links.c.source).where(links.c.target == thread_id, links.c.relation == "spawned_from")
    query = select(threads).where(threads.c.thread_id.in_(spawned), threads.c.thread_id != thread_id)
    return query.order_by(threads.c.created_at, threads.c.thread_id).limit(limit)


def agent_names(thread_ids: Sequence[str]) -> Select[Any]:
    """-> thread_id, agent's name; each once."""
    name = func.coalesce(agents.c.agent_name, agents.c.agent_id)
    return select(agents.c.thread_id, name).where(agents.c.thread_id.in_(thread_ids)).distinct().order_by(name)


def counts() -> Select[Any]:
    """-> one row: threads, turns, runs, interrupted."""
    runs = select(turns.c.thread_id, turns.c.run_id).distinct().subquery()
    real = turns.c.role != FACTS
    cut = and_(turns.c.role == 1, turns.c.status == "interrupted")
    return select(
        select(func.count()).select_from(threads).scalar_subquery(),
        select(func.count()).select_from(turns).where(real).scalar_subquery(),
        select(func.count()).select_from(runs).scalar_subquery(),
        select(func.count()).select_from(turns).where(cut).scalar_subquery(),
    )
