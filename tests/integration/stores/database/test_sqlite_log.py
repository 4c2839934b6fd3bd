"""SQLite's write-ahead log is emptied while several workers write, and while somebody reads for long."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Barrier, Event
from typing import Any, Final

import pytest

from pipeline.stores.database import engine
from pipeline.stores.database.sqlite_driver import log_ahead
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.turns import write_turns
from tests.support.waiting import PATIENCE

LIMIT: Final = 400_000


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(engine, "LOG_BYTES", LIMIT)
    return tmp_path / "threads.db"


def log_bytes(database: Path) -> int:
    return database.with_name("threads.db-wal").stat().st_size


def batch(record: Any, name: str) -> list[Any]:
    return [record(run=f"{name}-{n}", seconds=n, text="x" * 2_000) for n in range(20)]


async def write(database: Path, record: Any, name: str, rounds: int) -> list[int]:
    """Transactions of 20 turns, without a rest -> bytes of the log after each."""
    sizes = []
    async with await ThreadStore.open(f"sqlite:///{database}") as store:
        for number in range(rounds):
            await write_turns(store, batch(record, f"{name}-{number}"))
            sizes.append(log_bytes(database))
    return sizes


async def stored(database: Path) -> int:
    async with await ThreadStore.open(f"sqlite:///{database}") as store:
        return (await count_rows(store)).turns


async def test_a_reader_that_stays_holds_nobody_up(database: Path, record: Any) -> None:
    await write(database, record, "before", 1)
    reader = sqlite3.connect(database, isolation_level=None)
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchone()
        beside = await write(database, record, "beside", 12)
        assert beside[-1] > 2 * LIMIT, "what the reader sees must stay"
    finally:
        reader.close()
    after = await write(database, record, "after", 12)
    assert after[-1] < 2 * LIMIT
    assert await stored(database) == 500


async def test_behind_a_writer_in_the_way_the_next_transaction_empties_it(
    database: Path, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = Event()
    keep_small = engine.WriteAheadLog.keep_small

    def keep_small_and_say_so(log: engine.WriteAheadLog, connection: Any) -> None:
        keep_small(log, connection)
        tried.set()

    monkeypatch.setattr(engine.WriteAheadLog, "keep_small", keep_small_and_say_so)
    async with await ThreadStore.open(f"sqlite:///{database}") as store:
        number = 0
        while log_bytes(database) < LIMIT:
            await write_turns(store, batch(record, f"before-{number}"))
            number += 1
        other = sqlite3.connect(database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        tried.clear()
        writing = asyncio.create_task(write_turns(store, batch(record, "beside")))
        assert await asyncio.to_thread(tried.wait, PATIENCE)
        other.execute("COMMIT")
        other.close()
        await writing
        assert log_bytes(database) >= LIMIT
        await write_turns(store, batch(record, "after"))
        assert log_bytes(database) < LIMIT


async def test_writers_that_never_rest(database: Path, record: Any) -> None:
    sizes, _ = await asyncio.gather(write(database, record, "one", 60), write(database, record, "two", 60))
    emptied = [before for before, after in pairwise(sizes) if after < before]
    assert len(emptied) >= 3, sizes
    assert await stored(database) == 2_400


def test_those_that_turn_it_on_at_the_same_time(tmp_path: Path) -> None:
    """Without another attempt, of 200 new files some 20 have a connection that is refused."""
    begin = Barrier(4)

    def turn_on(file: Path) -> str:
        connection = sqlite3.connect(file, isolation_level=None)
        try:
            begin.wait(PATIENCE)
            log_ahead(connection.execute)
            mode: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
        finally:
            connection.close()
        return mode

    with ThreadPoolExecutor(begin.parties) as threads:
        for number in range(200):
            assert [*threads.map(turn_on, [tmp_path / f"{number}.db"] * begin.parties)] == ["wal"] * begin.parties


def test_what_is_no_database_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_bytes(b"notes of a meeting " * 100)
    connection = sqlite3.connect(tmp_path / "notes.db")
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        log_ahead(connection.execute)
    connection.close()
