"""Rows that are looked up by several columns: the right ones, and by an index on SQLite however many they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Integer, Text, column, select
from sqlalchemy.dialects import sqlite

from pipeline.stores.database import schema
from pipeline.stores.database.expressions import row_one_of
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.statements import among, is_thread
from topics.thread_key import ThreadKey

THREADS = [ThreadKey(f"thread-{n}", tenant) for n in range(3) for tenant in (None, "it's", "snow ☃")]
SUMS = [(900_000, start, False, names) for start in (0, 2**53) for names in (1, 2)]


async def test_rows_are_found_by_all_their_columns(store: ThreadStore) -> None:
    async with store.writing() as connection:
        for key in THREADS:
            row = {"thread_id": key.thread_id, "tenant": key.tenant or "", "updated_at": 0, "created_at": 0}
            await connection.execute(schema.threads.insert().values(row))
        named = schema.threads.c.thread_id, schema.threads.c.tenant
        for wanted in (THREADS[:1], THREADS[1:6], [*THREADS, ThreadKey("nobody", None)]):
            found = (await connection.execute(select(*named).where(among(wanted)))).all()
            there = {(key.thread_id, key.tenant or "") for key in wanted if key in THREADS}
            assert {(one.thread_id, one.tenant) for one in found} == there
            others = (await connection.execute(select(*named).where(~among(wanted), ~is_thread(THREADS[8])))).all()
            assert len(others) == len([key for key in THREADS[:8] if key not in wanted])


@pytest.mark.parametrize("rows", [1, 2, 200])
async def test_sqlite_looks_them_up(tmp_path: Path, rows: int) -> None:
    sums = schema.usage_sums.c
    place = sums.span, sums.start, sums.expired, sums.names
    queries: list[Any] = [
        select(schema.threads.c.id).where(among([ThreadKey(f"thread-{n}", None) for n in range(rows)])),
        select(schema.usage_sums).where(row_one_of(place, (SUMS * 50)[:rows])),
    ]
    async with await ThreadStore.open(f"sqlite:///{tmp_path}/store.db") as store, store.reading() as connection:
        for query in queries:
            made = query.compile(dialect=sqlite.dialect())
            given = [made.params[name] for name in made.positiontup]
            values = tuple(json.dumps(value) if isinstance(value, list) else value for value in given)
            plan = (await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {made}", values)).all()
            assert plan[0].detail.startswith("SEARCH "), plan


def test_columns_keep_their_order() -> None:
    columns = (column("b", Text()), column("a", Integer()))
    for rows, condition in (([("t", 1), ("u", 2)], "(b, a) IN"), ([("t", 1)], "b = ? AND a = ?"), ([], "(b, a) IN")):
        query = select(column("x", Integer())).where(row_one_of(columns, rows))
        assert condition in str(query.compile(dialect=sqlite.dialect()))
