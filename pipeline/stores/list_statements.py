"""The SQL of lists of threads: which rows of `threads` are in them, by what a caller asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, SelectBase, and_, exists, func, not_, or_, select, union_all
from sqlalchemy import tuple_ as row_of

from pipeline.stores.keys import NO_TENANT, IdOf, key_text, older_text, with_id
from pipeline.stores.schema import OLDER, agents, links, threads, turns
from pipeline.stores.summaries import decode_cursor
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey

NAMED: Final = 50  # threads of one name that are told apart: a producer may give it to any number


def thread_list(
    limit: int, cursor: str | None, agent_id: str | None, tenant: str | None, search: str | None
) -> Select[Any]:
    """-> rows of `threads`, the last updated first, one more than `limit`. Raises CallerError for a bad cursor."""
    query = select(threads).order_by(threads.c.updated_at.desc(), threads.c.thread_key.desc()).limit(limit + 1)
    query = query.where(*listed(tenant))
    if cursor is not None:
        query = query.where(row_of(threads.c.updated_at, threads.c.thread_key) < row_of(*decode_cursor(cursor)))
    if agent_id is not None:
        has = and_(agents.c.thread_key == threads.c.thread_key, agents.c.agent_id == column_text(agent_id))
        query = query.where(exists().where(has))
    if search:
        texts = (threads.c.title, threads.c.prompt, threads.c.external_id, IdOf(threads.c.thread_key))
        query = query.where(or_(*(text.icontains(column_text(search), autoescape=True) for text in texts)))
    return query


def listed(tenant: str | None) -> list[ColumnElement[bool]]:
    """-> the conditions that a row of `threads` is in the lists of a tenant; `tenant` as in ThreadStore.

    Of a thread that is about to be moved the older row is left out; and, for a tenant, one that holds other tenants'
    turns, too: its title and times may be theirs.
    """
    moved = threads.alias("moved")
    own_row = moved.c.thread_key == threads.c.thread_key.concat("/").concat(threads.c.tenant)
    # Scalar, so that it is looked up for such a row alone: Postgres might read all rows for an EXISTS.
    not_moved = select(moved.c.thread_key).where(own_row).scalar_subquery().is_(None)
    conditions: list[ColumnElement[bool]] = [or_(not_(OLDER), not_moved)]
    if tenant is None:
        return conditions
    name = column_text(tenant) or ""
    of_others = and_(turns.c.thread_key == threads.c.thread_key, func.coalesce(turns.c.tenant, "") != name)
    unmixed = select(turns.c.turn_id).where(of_others).limit(1).scalar_subquery().is_(None)
    mine = threads.c.tenant == name if name else func.coalesce(threads.c.tenant, "") == ""
    return [mine, *conditions, or_(not_(OLDER), unmixed)]


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


def line(key: ThreadKey) -> Select[Any]:
    """-> the row of `threads` of a thread, where it is of this thread alone."""
    return select(threads).where(threads.c.thread_key == key_text(key), *listed(key.tenant or NO_TENANT))


def thread_keys(after: str, limit: int) -> Select[Any]:
    """-> thread_key, tenant of the next `limit` rows of `threads`, in ascending order."""
    query = select(threads.c.thread_key, threads.c.tenant).where(threads.c.thread_key > after)
    return query.order_by(threads.c.thread_key).limit(limit)


def having_id(thread_id: str) -> Select[Any]:
    """-> thread_key, tenant of the rows of `threads` with this id, whichever tenant's."""
    columns = threads.c.thread_key, threads.c.tenant
    return select(*columns).where(with_id(threads.c.thread_key, thread_id)).order_by(threads.c.thread_key).limit(NAMED)


def declaring(conversation_id: str, tenant: str | None) -> Select[Any]:
    """-> thread_key, tenant of the first rows of `threads` with this id of their producer's, as `listed`."""
    query = select(threads.c.thread_key, threads.c.tenant).where(threads.c.external_id == column_text(conversation_id))
    return query.where(*listed(tenant)).order_by(threads.c.thread_key).limit(NAMED)


def spawned_from(key: ThreadKey, limit: int | None) -> Select[Any]:
    """-> rows of `threads` with a `spawned_from` link to this thread, the oldest first."""
    spawned = threads.c.thread_key.in_(_sources(key))
    query = select(threads).where(spawned, threads.c.thread_key != key_text(key), *listed(key.tenant or NO_TENANT))
    return query.order_by(threads.c.created_at, threads.c.thread_key).limit(limit)


def _sources(key: ThreadKey) -> SelectBase:
    """-> the keys of the threads that say that they were spawned from this one."""
    said = links.c.relation == "spawned_from"
    holder = and_(turns.c.turn_id == links.c.turn_id, turns.c.thread_key == links.c.thread_key)
    stated = select(links.c.source).join(turns, holder).where(said)
    if key.tenant is None:
        return stated.where(links.c.target == key_text(key), func.coalesce(turns.c.tenant, "") == "")
    tenant = column_text(key.tenant) or ""
    older = and_(said, links.c.target == older_text(key), turns.c.tenant == tenant)
    return union_all(
        select(links.c.source).where(said, links.c.target == key_text(key)),
        select(links.c.source).join(turns, holder).where(older),
        select(links.c.source.concat(f"/{tenant}")).join(turns, holder).where(older),
    )


def agent_names(texts: Sequence[str]) -> Select[Any]:
    """-> thread_key, agent's name; each once."""
    name = func.coalesce(agents.c.agent_name, agents.c.agent_id)
    return select(agents.c.thread_key, name).where(agents.c.thread_key.in_(texts)).distinct().order_by(name)
