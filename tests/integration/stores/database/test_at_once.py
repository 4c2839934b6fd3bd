"""Transactions on SQLite that a thread carries out: the same as on Postgres, and the event loop goes on meanwhile."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.threads.summaries import WriteResult
from pipeline.stores.threads.write import lock
from pipeline.stores.turns import write_turns
from tests.support.turn_records import Record
from topics.thread_key import ThreadKey


async def added(connection: AsyncConnection) -> None:
    await lock(connection, {ThreadKey("one")})


async def threads(store: ThreadStore) -> int:
    return (await count_rows(store)).threads


async def test_what_fails_leaves_nothing(store: ThreadStore) -> None:
    async def fails(connection: AsyncConnection) -> None:
        await added(connection)
        raise LookupError("no reason of the store's")

    with pytest.raises(LookupError, match="no reason"):
        await store.written(fails)
    assert await threads(store) == 0
    await store.written(added)
    assert await threads(store) == 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


async def test_nothing_but_statements_is_waited_for(file: Path) -> None:
    async def waits(connection: AsyncConnection) -> None:
        await added(connection)
        await asyncio.sleep(0)

    async with await ThreadStore.open(f"sqlite:///{file}") as store:
        with pytest.raises(RuntimeError, match="nothing but its statements"):
            await store.written(waits)
        assert await threads(store) == 0


async def test_the_loop_goes_on_and_a_cancelled_caller_does_not_stop_it(file: Path, record: Record) -> None:
    async with await ThreadStore.open(f"sqlite:///{file}") as store:
        other: Any = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(write_turns(store, [record()]))
        await asyncio.sleep(0.1)
        assert not writing.done()
        writing.cancel()
        await asyncio.sleep(0)
        other.execute("COMMIT")
        other.close()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert await write_turns(store, [record()]) == WriteResult(unchanged=1)
