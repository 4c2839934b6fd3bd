"""The SQL of searches. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, cast, column, exists, func, literal, not_, select, table
from sqlalchemy.dialects.postgresql import TSQUERY

from pipeline.stores.schema import UNSEARCHED, erased, said, turns

FTS5 = table("said_words", column("rowid"), column("said_words"))


def sqlite_candidates(match: str, since: int, before: int, limit: int) -> Select[Any]:
    """-> id, words of the newest turns that fit."""
    hits = select(FTS5.c.rowid).where(FTS5.c.said_words.op("MATCH")(match))
    hits = hits.where(FTS5.c.rowid >= since, FTS5.c.rowid < before).order_by(FTS5.c.rowid.desc()).limit(limit)
    return select(said.c.id, cast(said.c.words, Text).label("words")).where(said.c.id.in_(hits))


def newest(tenant: str | None, since: int, before: int, limit: int) -> Select[Any]:
    """-> id, words of the newest turns, whether they fit or not."""
    query = select(said.c.id, said.c.words).where(*_bounds(tenant, since, before))
    return query.order_by(said.c.id.desc()).limit(limit)


def fitting(query: str, tenant: str | None, since: int, before: int) -> Select[Any]:
    """-> id, words of all turns that fit. By the index of words: OFFSET keeps Postgres from going through the turns in
    the order of their ids until it has enough, which may be all of them.
    """
    return select(said.c.id, said.c.words).where(_fits(said.c.words, query), *_bounds(tenant, since, before)).offset(0)


def postgres_candidates(rows: Select[Any], query: str, wanted: str, limit: int) -> Select[Any]:
    """-> id, score of the newest of these rows that fit; `wanted`: the query without what must not be there."""
    some = rows.subquery()
    hits = select(some).where(_fits(some.c.words, query)).order_by(some.c.id.desc()).limit(limit).subquery()
    return select(hits.c.id, func.ts_rank(hits.c.words, cast(literal(wanted), TSQUERY), 1).label("score"))


def hits(ids: Sequence[int], tenant: str | None) -> Select[Any]:
    """-> id, thread_key, turn_id, role, started_at, document as text, of the turns with these ids. Those are left out
    whose words are of another version of the turn, and whose thread is marked as erased.
    """
    columns = turns.c.said.label("id"), turns.c.thread_key, turns.c.turn_id, turns.c.role, turns.c.started_at
    query = select(*columns, cast(turns.c.document, Text).label("document"))
    query = query.where(
        turns.c.said.in_(ids), not_(UNSEARCHED), ~exists().where(erased.c.thread_key == turns.c.thread_key)
    )
    return query if tenant is None else query.where(func.coalesce(turns.c.tenant, "") == tenant)


def _fits(words: ColumnElement[Any], query: str) -> ColumnElement[bool]:
    return words.op("@@")(cast(literal(query), TSQUERY))


def _bounds(tenant: str | None, since: int, before: int) -> list[ColumnElement[bool]]:
    mine = [] if tenant is None else [said.c.tenant == tenant]
    return [*mine, said.c.id >= since, said.c.id < before]
