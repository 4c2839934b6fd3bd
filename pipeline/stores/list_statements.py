"""The SQL of lists of threads: which rows of `threads` are in them, by what a caller asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy import tuple_ as row_of

from pipeline.stores.keys import id_and_tenant
from pipeline.stores.rows import COMPLETE
from pipeline.stores.schema import agents, links, thread_agents, threads, turns
from pipeline.stores.statements import NAME, is_thread
from pipeline.stores.summaries import decode_cursor
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey

NAMED: Final = 50  # threads of one name that are told apart: a producer may give it to any number


def thread_list(
    limit: int, cursor: str | None, agent_id: str | None, tenant: str | None, search: str | None
) -> Select[Any]:
    """Return a query of rows of `threads`, the last updated first, one more than `limit`.

    Raises CallerError for a bad cursor.
    """
    query = select(threads).order_by(threads.c.updated_at.desc(), threads.c.id.desc()).limit(limit + 1)
    query = query.where(*of_tenant(tenant))
    if cursor is not None:
        query = query.where(row_of(threads.c.updated_at, threads.c.id) < row_of(*decode_cursor(cursor)))
    if agent_id is not None:
        query = query.where(speaks(agent_id))
    if search:
        texts = (threads.c.title, threads.c.prompt, threads.c.external_id, threads.c.thread_id)
        query = query.where(or_(*(text.icontains(column_text(search), autoescape=True) for text in texts)))
    return query


def of_tenant(tenant: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions that a row of `threads` is a tenant's; `tenant` as in ThreadStore."""
    return [] if tenant is None else [threads.c.tenant == (column_text(tenant) or "")]


def speaks(agent_id: str) -> ColumnElement[bool]:
    """Return the condition that an agent speaks in a thread."""
    named = select(agents.c.id).where(agents.c.agent_id == column_text(agent_id))
    return threads.c.id.in_(select(thread_agents.c.thread).where(thread_agents.c.agent.in_(named)))


def narrowed(
    external_id: str | None, status: str | None, since: int | None, until: int | None
) -> list[ColumnElement[bool]]:
    """Return further conditions of a list of threads; times of the last update, in epoch ms."""
    conditions: list[ColumnElement[bool]] = []
    if external_id is not None:
        conditions.append(threads.c.external_id == column_text(external_id))
    if status is not None:
        conditions.append(threads.c.status == COMPLETE if status == "complete" else threads.c.status < COMPLETE)
    if since is not None:
        conditions.append(threads.c.updated_at >= since)
    if until is not None:
        conditions.append(threads.c.updated_at < until)
    return conditions


def line(key: ThreadKey) -> Select[Any]:
    """Return a query of a thread's row of `threads`."""
    return select(threads).where(is_thread(key))


def thread_names(after: tuple[str, str], limit: int) -> Select[Any]:
    """Return a query of id and name of the next `limit` threads, in the order of their names."""
    order = threads.c.thread_id, threads.c.tenant
    return select(threads.c.id, *NAME).where(row_of(*order) > row_of(*after)).order_by(*order).limit(limit)


def having_id(thread_id: str) -> Select[Any]:
    """Return a query of the names of the threads with this id, whichever tenant's."""
    mine = threads.c.thread_id == column_text(thread_id)
    return select(*NAME).where(mine).order_by(threads.c.tenant).limit(NAMED)


def declaring(conversation_id: str, tenant: str | None) -> Select[Any]:
    """Return a query of the first threads with this id of their producer's; `tenant` as in ThreadStore."""
    query = select(*NAME).where(threads.c.external_id == column_text(conversation_id), *of_tenant(tenant))
    return query.order_by(threads.c.thread_id, threads.c.tenant).limit(NAMED)


def spawned_from(key: ThreadKey, limit: int | None) -> Select[Any]:
    """Return a query of the rows of `threads` with a `spawned_from` link to this thread, the oldest first."""
    thread_id, tenant = id_and_tenant(key)
    holders = threads.alias("holders")
    sources = (
        select(links.c.source).join(turns, links.c.turn == turns.c.id).join(holders, turns.c.thread == holders.c.id)
    )
    sources = sources.where(links.c.target == thread_id, links.c.relation == "spawned_from", holders.c.tenant == tenant)
    query = select(threads).where(threads.c.tenant == tenant, threads.c.thread_id.in_(sources))
    return (
        query.where(threads.c.thread_id != thread_id).order_by(threads.c.created_at, threads.c.thread_id).limit(limit)
    )


def agent_names(ids: Sequence[int]) -> Select[Any]:
    """Return a query of thread and agent's name, each once."""
    name = func.coalesce(agents.c.agent_name, agents.c.agent_id)
    query = select(thread_agents.c.thread, name).join(agents, thread_agents.c.agent == agents.c.id)
    return query.where(thread_agents.c.thread.in_(ids)).distinct().order_by(name)
