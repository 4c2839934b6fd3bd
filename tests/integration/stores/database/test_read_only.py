"""A database that takes no writes for a while, as a managed service makes it when the disk is full."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text

from pipeline.__main__ import cli
from pipeline.cli.services import doctor
from pipeline.settings import Settings
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.turns import write_turns
from pipeline.worker.host import work
from tests.support.turn_records import Record

SAID = r"takes no writes.*wait for the failover, name the primary in TURNMILL_STORE, or make room \(25006\)"


@asynccontextmanager
async def read_only(url: str) -> AsyncIterator[None]:
    """New sessions of this database are read-only within the block, and all older ones are ended at its beginning."""
    name = urlsplit(url).path.removeprefix("/")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        await connection.execute(f"SELECT pg_terminate_backend(pid) {others}")
        yield
        await connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    finally:
        await connection.close()


@pytest.fixture
async def store(postgres_database: str) -> AsyncIterator[ThreadStore]:
    async with await ThreadStore.open(postgres_database, migrate=True) as opened:
        yield opened


async def several(store: ThreadStore) -> None:
    """Use several connections at the same time."""
    await asyncio.gather(*(store.rows(text("SELECT pg_sleep(0.05)")) for _ in range(5)))


async def test_writing_goes_on_when_it_is_over(
    store: ThreadStore, postgres_database: str, record: Callable[..., Record]
) -> None:
    await write_turns(store, [record("chat", "before")])
    async with read_only(postgres_database):
        await several(store)  # all of them are in the pool from now on
        with pytest.raises(StoreError, match=SAID) as caught:
            await write_turns(store, [record("chat", "meanwhile")])
        assert caught.value.transient
        assert (await count_rows(store)).turns == 1, "what is stored can be read meanwhile"
        await several(store)
    await write_turns(store, [record("chat", "meanwhile")])
    assert (await count_rows(store)).turns == 2


def test_the_wait_for_the_next_try_is_short() -> None:
    assert work.MAX_DELAY * 1.5 <= 15, "it is back 30 s after the database is, with a connection that takes 10 s"


def invoked() -> Result:
    return CliRunner().invoke(cli, ["store", "check"])


async def test_the_checks_write(postgres_database: str, store: ThreadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(store=postgres_database)
    monkeypatch.setenv("TURNMILL_STORE", postgres_database)
    assert (await doctor._store(settings)).level == "ok"
    async with read_only(postgres_database):
        finding = await doctor._store(settings)
        checked = await asyncio.to_thread(invoked)
    assert finding.level == "error"
    assert "takes no writes" in finding.seen
    assert "takes no writes" in str(checked.exception)
    before = await store.rows(text("SELECT xmin FROM compatibility"))
    checked = await asyncio.to_thread(invoked)
    assert checked.exit_code == 0
    assert await store.rows(text("SELECT xmin FROM compatibility")) == before, "nothing was written"
