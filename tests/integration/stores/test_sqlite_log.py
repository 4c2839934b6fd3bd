"""SQLite's write-ahead log is emptied while several workers write, and while somebody reads for long."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, Final

import pytest

from pipeline.stores import engine
from pipeline.stores.sql import ThreadStore

LIMIT: Final = 300_000


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(engine, "LOG_BYTES", LIMIT)
    return tmp_path / "threads.db"


def log_bytes(database: Path) -> int:
    return database.with_name("threads.db-wal").stat().st_size


async def write(store: ThreadStore, record: Any, name: str, rounds: int) -> int:
    for round_ in range(rounds):
        await store.write([record(run=f"{name}-{round_}-{n}", seconds=n, text="x" * 2_000) for n in range(20)])
    return 20 * rounds


async def test_a_reader_that_stays_holds_nobody_up(database: Path, record: Any) -> None:
    async with await ThreadStore.open(f"sqlite:///{database}") as store:
        reader = sqlite3.connect(database, isolation_level=None)
        try:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM turns").fetchone()
            await write(store, record, "beside", 12)
            assert log_bytes(database) > 2 * LIMIT, "what the reader sees must stay"
        finally:
            reader.close()
        await write(store, record, "after", 12)
        assert log_bytes(database) < 2 * LIMIT
        assert (await store.counts()).turns == 480


async def test_writers_that_never_rest(database: Path, record: Any) -> None:
    async with (
        await ThreadStore.open(f"sqlite:///{database}") as one,
        await ThreadStore.open(f"sqlite:///{database}") as two,
    ):
        written = await asyncio.gather(write(one, record, "one", 40), write(two, record, "two", 40))
        assert log_bytes(database) < 3 * LIMIT
        assert (await one.counts()).turns == sum(written)
