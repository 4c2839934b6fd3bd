"""Migrations: on both databases, by several at once, and what does not fit is refused."""

import asyncio
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from pipeline.stores.database import migrate
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.schema import metadata
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.threads.summaries import Counts
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

OPEN = """
import asyncio, sys
from pipeline.stores.database.store import ThreadStore
async def main():
    async with await ThreadStore.open(sys.argv[1], migrate=True) as store:
        print(await store.revision())
asyncio.run(main())
"""


def of_the_code(name: str | None, kind: str, _: Any) -> bool:
    """Not the tables of SQLite's FTS5."""
    return kind != "table" or name is None or not name.startswith(("turn_words_", "turn_numbers"))


def of_both(item: Any, _: str | None, kind: str, reflected: bool, compared: Any) -> bool:  # noqa: FBT001  # Alembic's
    """Not the indexes that only Postgres has, where they are not found."""
    return (
        kind != "index"
        or reflected
        or compared is not None
        or item.name not in ("turn_words_tenant", "turn_words_words")
    )


async def test_the_migrations_make_the_tables_of_the_code(store: ThreadStore) -> None:
    async with store.reading() as connection:
        opts = {"version_table": migrate.VERSION_TABLE, "include_name": of_the_code, "include_object": of_both}
        difference = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync, opts=opts), metadata)
        )
    assert difference == []
    assert await store.revision() == migrate.HEAD


async def test_a_store_that_is_up_to_date_is_left_alone(store: ThreadStore) -> None:
    assert await store.migrate() == migrate.HEAD


async def test_a_newer_schema_is_refused(store: ThreadStore, store_url: str) -> None:
    async with store.writing() as connection:
        await connection.execute(text("UPDATE turnmill_version SET version_num = '9999'"))
        await connection.execute(text("UPDATE compatibility SET oldest = '9999'"))
    for allowed in (False, True):
        with pytest.raises(StoreError, match=r"9999, newer than this Turnmill .*update Turnmill") as caught:
            await ThreadStore.open(store_url, migrate=allowed)
        assert not caught.value.transient


EXPANDED = (
    "ALTER TABLE threads ADD COLUMN mood TEXT",
    "ALTER TABLE turns ADD COLUMN weight BIGINT DEFAULT 7 NOT NULL",
    "ALTER TABLE usage ADD COLUMN carbon BIGINT",
    "CREATE TABLE moods (mood TEXT PRIMARY KEY)",
    "CREATE INDEX turns_weight ON turns (weight)",
    "UPDATE turnmill_version SET version_num = '9999'",
)


async def test_this_code_works_beside_newer_code_that_has_added_to_the_schema(
    store: ThreadStore, store_url: str, record: Any
) -> None:
    """A roll: the schema is migrated first, and workers of the old version go on, and start anew."""
    await write_turns(store, [record(run="before")])
    async with store.writing() as connection:
        for statement in EXPANDED:
            await connection.execute(text(statement))
    await write_turns(
        store, [record(run="meanwhile", text="by a worker that was running"), record(run="before", revision=1)]
    )
    for allowed in (False, True):
        async with await ThreadStore.open(store_url, migrate=allowed) as opened:
            assert await opened.revision() == "9999"
            await write_turns(opened, [record("other", f"restarted {allowed}")])
            assert sorted(thread.turns for thread in (await list_threads(opened)).threads) == [1 + allowed, 2]
            assert (await usage_report(opened, UsageQuery())).total.turns == 3 + allowed
            assert await delete_thread(opened, ThreadKey(thread_uuid("nobody")[0])) is False
    async with store.reading() as connection:
        assert set(await connection.scalars(text("SELECT weight FROM turns"))) == {7}


@pytest.mark.parametrize("mark", [None, "0008"])
async def test_tables_without_the_mark_of_the_baseline_are_refused(store_url: str, mark: str | None) -> None:
    async with ThreadStore(store_url) as store, store.writing() as connection:
        for table in ("threads", "turns"):
            await connection.execute(text(f"CREATE TABLE {table} (thread_id TEXT PRIMARY KEY)"))
        if mark is not None:
            await connection.execute(text("CREATE TABLE turnmill_version (version_num TEXT)"))
            await connection.execute(text(f"INSERT INTO turnmill_version VALUES ('{mark}')"))
    for allowed in (False, True):
        with pytest.raises(StoreError, match="name another database or file in TURNMILL_STORE") as caught:
            await ThreadStore.open(store_url, migrate=allowed)
        assert not caught.value.transient


async def test_postgres_is_migrated_only_on_command(postgres_database: str) -> None:
    with pytest.raises(StoreError, match="`turnmill store migrate`"):
        await ThreadStore.open(postgres_database)
    async with await ThreadStore.open(postgres_database, migrate=True) as store:
        assert await count_rows(store) == Counts(0, 0, 0, 0)
    async with await ThreadStore.open(postgres_database) as store:
        assert await store.revision() == migrate.HEAD


async def test_sqlite_is_migrated_when_it_is_opened(tmp_path: Path) -> None:
    async with await ThreadStore.open(f"sqlite:///{tmp_path / 'new' / 'threads.db'}") as store:
        assert await store.revision() == migrate.HEAD


async def test_sqlite_keeps_what_is_committed_and_lets_readers_in(tmp_path: Path) -> None:
    async with await ThreadStore.open(f"sqlite:///{tmp_path / 'threads.db'}") as store, store.reading() as connection:
        pragmas = [
            await connection.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert pragmas == ["wal", 2, 1]


async def test_several_may_migrate_at_once(store_url: str) -> None:
    """Two in this process, three in others."""
    others = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", OPEN, store_url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]
    stores = await asyncio.gather(*(ThreadStore.open(store_url, migrate=True) for _ in range(2)))
    for store in stores:
        assert await store.revision() == migrate.HEAD
        await store.close()
    for other in others:
        out, err = await other.communicate()
        assert (out.decode().strip(), err.decode()) == (migrate.HEAD, "")


async def test_a_failed_migration_leaves_nothing(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = migrate._run

    def fail(connection: Any) -> None:
        run(connection)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(migrate, "_run", fail)
    with pytest.raises(StoreError, match="make room"):
        await ThreadStore.open(store_url, migrate=True)
    monkeypatch.undo()
    async with ThreadStore(store_url) as store:
        assert await store.revision() is None
        assert await store.migrate() is None
        assert await count_rows(store) == Counts(0, 0, 0, 0)
