"""The SQL of searches. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, cast, column, func, literal, select, table
from sqlalchemy.dialects.postgresql import TSQUERY

from pipeline.stores.database.bounded_sum import MAX_INTEGER
from pipeline.stores.database.schema import threads, turn_words, turns
from pipeline.stores.threads.statements import NAME

FTS5 = table("turn_words_index", column("rowid"), column("turn_words_index"))


def sqlite_candidates(match: str, since: int, before: int, limit: int) -> Select[Any]:
    """Return a query of id and words of the newest turns that match."""
    hits = select(FTS5.c.rowid).where(FTS5.c.turn_words_index.op("MATCH")(match))
    hits = hits.where(FTS5.c.rowid >= since, FTS5.c.rowid < before).order_by(FTS5.c.rowid.desc()).limit(limit)
    return select(turn_words.c.id, cast(turn_words.c.words, Text).label("words")).where(turn_words.c.id.in_(hits))


def newest(tenant: str | None, since: int, before: int, limit: int) -> Select[Any]:
    """Return a query of id and words of the newest turns, whether they match or not."""
    query = select(turn_words.c.id, turn_words.c.words).where(*_bounds(tenant, since, before))
    return query.order_by(turn_words.c.id.desc()).limit(limit)


def fitting(query: str, tenant: str | None, since: int, before: int) -> Select[Any]:
    """Return a query of id and words of all turns that match, by the index of words.

    OFFSET keeps Postgres from going through the turns in the order of their ids until it has enough, which may be all
    of them.
    """
    found = select(turn_words.c.id, turn_words.c.words)
    return found.where(_fits(turn_words.c.words, query), *_bounds(tenant, since, before)).offset(0)


def postgres_candidates(rows: Select[Any], query: str, wanted: str, limit: int) -> Select[Any]:
    """Return a query of id and score of the newest of these rows that match.

    `wanted`: the query without terms that must not occur.
    """
    some = rows.subquery()
    hits = select(some).where(_fits(some.c.words, query)).order_by(some.c.id.desc()).limit(limit).subquery()
    return select(hits.c.id, func.ts_rank(hits.c.words, cast(literal(wanted), TSQUERY), 1).label("score"))


def sqlite_callers(word: str, limit: int) -> Select[Any]:
    """Return a query of the ids of the newest turns with this word, as the index has it."""
    found = select(FTS5.c.rowid).where(FTS5.c.turn_words_index.op("MATCH")(f'"{word}"'))
    return found.order_by(FTS5.c.rowid.desc()).limit(limit)


def postgres_callers(query: str, tenant: str | None, limit: int) -> Select[Any]:
    """Return a query of the ids of the newest turns that match."""
    some = fitting(query, tenant, 0, MAX_INTEGER).subquery()
    return select(some.c.id).order_by(some.c.id.desc()).limit(limit)


def hits(ids: Sequence[int], tenant: str | None) -> Select[Any]:
    """Return a query of the turns with these ids.

    Its columns: id, name and title of the thread, turn_id, role, started_at and record.
    """
    title = func.coalesce(threads.c.title, threads.c.prompt).label("title")
    columns = turns.c.id, *NAME, title, turns.c.turn_id, turns.c.role, turns.c.started_at, turns.c.record
    query = select(*columns).join(threads, turns.c.thread == threads.c.id).where(turns.c.id.in_(ids))
    return query if tenant is None else query.where(threads.c.tenant == tenant)


def _fits(words: ColumnElement[Any], query: str) -> ColumnElement[bool]:
    return words.op("@@")(cast(literal(query), TSQUERY))


def _bounds(tenant: str | None, since: int, before: int) -> list[ColumnElement[bool]]:
    mine = [] if tenant is None else [turn_words.c.tenant == tenant]
    return [*mine, turn_words.c.id >= since, turn_words.c.id < before]
