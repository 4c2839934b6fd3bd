"""A transaction that is cancelled in the middle of a statement leaves SQLite's write lock to the next one."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import text

from pipeline.stores.accounts.audit import forget_audit
from pipeline.stores.database import engine
from pipeline.stores.database.engine import ReleasingConnection
from pipeline.stores.database.store import ThreadStore

LONG: Final = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2000000)
SELECT count(*) FROM numbers
"""


@pytest.mark.parametrize("beside", [False, True], ids=["the next", "one that waits"])
async def test_the_lock_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, beside: bool) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 5.0)
    inside = asyncio.Event()

    async with await ThreadStore.open(f"sqlite:///{tmp_path}/threads.db") as store:

        async def cancelled() -> None:
            async with store.writing() as connection:
                inside.set()
                await connection.execute(text(LONG))
                pytest.fail("it was cancelled before")

        # The task keeps its exception, and the exception its cursor, as cycles of references do until a collection.
        first = asyncio.create_task(cancelled())
        await inside.wait()
        waiting = asyncio.create_task(forget_audit(store, "a")) if beside else None
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        await (waiting or forget_audit(store, "a"))


def test_it_may_be_closed_twice(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "threads.db", factory=ReleasingConnection)
    connection.close()
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")
