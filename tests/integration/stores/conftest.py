"""Stores on SQLite and on a real Postgres: the same tests run on both."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from sqlalchemy import select, text

from pipeline.stores.database.schema import metadata, notices, usage_changes
from pipeline.stores.database.store import ThreadStore
from tests.support.s3 import s3_server
from tests.support.turn_records import Record, make_record


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of an S3 server."""
    with s3_server() as endpoint:
        yield endpoint


@asynccontextmanager
async def database(postgres_url: str, template: str = "template1") -> AsyncIterator[str]:
    """-> the address of a database, a copy of another one, which goes with the block."""
    name = f"test_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield re.sub(r"(//[^/]*/)[^?]*", rf"\g<1>{name}", postgres_url, count=1)
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def empty_store(postgres_url: str) -> Iterator[str]:
    """The name of a database with an empty store: a copy of it takes a tenth of what the tables take to be made."""

    async def made(url: str) -> None:
        async with await ThreadStore.open(url, migrate=True):
            pass

    with asyncio.Runner() as runner:
        one = database(postgres_url)
        url = runner.run(one.__aenter__())
        runner.run(made(url))
        yield urlsplit(url).path.removeprefix("/")
        runner.run(one.__aexit__(None, None, None))


@pytest.fixture
async def postgres_database(postgres_url: str, request: pytest.FixtureRequest, empty_store: str) -> AsyncIterator[str]:
    """The address of a database for one test: with an empty store where the test asks for one, else with nothing."""
    async with database(postgres_url, empty_store if "store" in request.fixturenames else "template1") as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'folder' / 'threads.db'}"
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[ThreadStore]:
    """An open, empty store."""
    async with await ThreadStore.open(store_url, migrate=True) as opened:
        yield opened


@pytest.fixture
def record() -> Callable[..., Record]:
    """Makes turn records: record("chat", "run", seconds=3, text="…", **fields of the record)."""
    return make_record


async def blocked(store: ThreadStore, task: asyncio.Task[Any]) -> None:
    """Returns when a connection of this Postgres database waits for a lock."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(30):
        while True:
            assert not task.done(), "it waits for nobody"
            async with store.reading() as connection:
                if await connection.scalar(waiting):
                    return
            await asyncio.sleep(0.005)


# Columns that hold an integer of another table -> that table, and the columns that its rows are known by.
NAMED_BY = {
    "thread": ("threads", ("thread_id", "tenant")),
    "turn": ("turns", ("turn_id",)),
    "names": ("usage_names", ("digest",)),
    "label": ("labels", ("digest",)),
    "agent": ("agents", ("digest",)),
    "request": ("requests", ("digest",)),
    "value": ("request_values", ("digest",)),
    "price_source": ("price_sources", ("source",)),
}


def _named(table: str, row: dict[str, Any], found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    names = {key: value for key, value in row.items() if key != "id" or table == "expiry_state"}
    for column, (other, known_by) in NAMED_BY.items():
        if isinstance(number := names.get(column), int) and table != other:
            (target,) = [one for one in found[other] if one["id"] == number]
            names[column] = tuple(target[name] for name in known_by)
    if table == "turn_words":
        (turn,) = [one for one in found["turns"] if one["id"] == row["id"]]
        names["turn"] = turn["turn_id"]
    return names


@pytest.fixture
def tables(store: ThreadStore) -> Callable[[], Any]:
    """Reads every row of every table, its integers as the names that they stand for; without what tells how the rows
    came about: the notes of `usage_changes`, and the notices that wait for their topic.
    """

    async def read() -> dict[str, list[dict[str, Any]]]:
        async with store.reading() as connection:
            found = {
                table.name: [dict(row) for row in (await connection.execute(select(table))).mappings()]
                for table in metadata.sorted_tables
                if table not in (usage_changes, notices)
            }
        return {name: sorted((_named(name, row, found) for row in rows), key=repr) for name, rows in found.items()}

    return read
