"""The SQL for rows of a version that knew ids only (`pipeline.stores.keys`): to read and to move them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Delete, Select, and_, delete, func, literal, select

from pipeline.stores.keys import NO_TENANT, older_text, own
from pipeline.stores.schema import OLDER, agents, threads, turns, usage
from pipeline.stores.statements import derived
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey


def key_behind(after: str) -> Select[Any]:
    """-> thread_key of the first thread behind `after` that has rows of an older version."""
    query = select(threads.c.thread_key).where(OLDER, threads.c.thread_key > after)
    return query.order_by(threads.c.thread_key).limit(1)


def tenants_of(texts: Sequence[str]) -> Select[Any]:
    """-> thread_key, tenant of each tenant with turns in these rows of `threads`."""
    return select(turns.c.thread_key, turns.c.tenant).where(turns.c.thread_key.in_(texts)).distinct()


def some_turns(key: ThreadKey, after: str, limit: int) -> Select[Any]:
    """-> turn_id, digest, facts, document of the next turns, by their ids, that an older version has stored of a
    thread.
    """
    query = select(turns.c.turn_id, turns.c.digest, turns.c.facts, turns.c.document)
    return query.where(_older(key), turns.c.turn_id > after).order_by(turns.c.turn_id).limit(limit)


def usage_of(key: ThreadKey, turn_ids: Sequence[str]) -> Select[Any]:
    """-> rows of `usage` that an older version has stored of these turns."""
    return select(usage).where(usage.c.thread_key == older_text(key), usage.c.turn_id.in_(turn_ids))


def delete_turns(key: ThreadKey, turn_ids: Sequence[str]) -> Delete:
    """Deletes these turns as an older version has stored them."""
    return delete(turns).where(_older(key), turns.c.turn_id.in_(turn_ids))


def line(key: ThreadKey) -> Select[Any]:
    """-> one row, as of `threads`, of the turns that an older version has stored of a thread."""
    line = derived(own(turns, key), own(usage, key))
    return select(literal(older_text(key)).label("thread_id"), *(value.label(name) for name, value in line.items()))


def agent_names(key: ThreadKey) -> Select[Any]:
    """-> thread_key, agent's name; each once, of the turns that an older version has stored of a thread."""
    holder = and_(turns.c.turn_id == agents.c.turn_id, turns.c.thread_key == agents.c.thread_key)
    name = func.coalesce(agents.c.agent_name, agents.c.agent_id)
    return select(agents.c.thread_key, name).join(turns, holder).where(own(turns, key)).distinct().order_by(name)


def _older(key: ThreadKey) -> ColumnElement[bool]:
    return and_(turns.c.thread_key == older_text(key), turns.c.tenant == (column_text(key.tenant) or NO_TENANT))
