"""What goes wrong with a database: each says what to do, and whether to try again."""

import asyncio
import re
import socket
import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from pipeline.stores.database.errors import StoreError, UnstorableData
from pipeline.stores.database.failures import store_error
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.turns import write_turns
from turnmill.errors import CallerError


@pytest.mark.parametrize("url", ["mysql://u:secret@host/db", "sqlite://", "threads.db", ""])
async def test_an_address_of_another_kind(url: str) -> None:
    with pytest.raises(CallerError, match="TURNMILL_STORE") as caught:
        await ThreadStore.open(url)
    assert "secret" not in str(caught.value)


async def test_nobody_listens(unused_port: int) -> None:
    with pytest.raises(StoreError, match=r"can't be reached.*TURNMILL_STORE") as caught:
        await ThreadStore.open(f"postgresql://me:secret@127.0.0.1:{unused_port}/db")
    assert caught.value.transient
    assert "secret" not in str(caught.value)


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_no_such_host() -> None:
    with pytest.raises(StoreError, match="can't be reached") as caught:
        await ThreadStore.open("postgresql://me:secret@nowhere.invalid/db")
    assert caught.value.transient


async def test_no_such_database(postgres_url: str) -> None:
    with pytest.raises(StoreError, match="does not exist: create it") as caught:
        await ThreadStore.open(re.sub(r"(//[^/]*/)[^?]*", r"\g<1>nothing_here", postgres_url, count=1))
    assert not caught.value.transient


async def test_a_user_who_may_not(postgres_database: str) -> None:
    async with await ThreadStore.open(postgres_database, migrate=True):
        pass
    admin = await asyncpg.connect(postgres_database)
    role = f"reader_{id(admin)}"
    try:
        await admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'")
        await admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
        url = re.sub(r"//[^@]*@", f"//{role}:secret@", postgres_database, count=1)
        async with await ThreadStore.open(url) as store:
            with pytest.raises(StoreError, match="lacks a right: grant it") as caught:
                await write_turns(store, [facts()])
        assert not caught.value.transient
        assert "secret" not in str(caught.value)
    finally:
        await admin.execute(f"DROP OWNED BY {role}")
        await admin.execute(f"DROP ROLE {role}")
        await admin.close()


def facts() -> Any:
    thread_id = "11111111-1111-4111-8111-111111111111"
    identity = {"v": 1, "thread_id": thread_id, "run_id": "r", "turn_id": thread_id, "agent_id": "a", "dialect": "d"}
    return {
        **identity,
        "revision": 0,
        "status": "complete",
        "hash": None,
        "events": 1,
        "ranges": [[0, 0]],
        "turn": None,
    }


async def test_a_connection_that_the_server_ended_is_replaced(postgres_database: str) -> None:
    async with await ThreadStore.open(postgres_database, migrate=True) as store:
        await write_turns(store, [facts()])
        admin = await asyncpg.connect(postgres_database)
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        await admin.close()
        assert (await count_rows(store)).threads == 1


async def test_a_file_that_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stores.database.engine.BUSY_SECONDS", 0.05)
    path = tmp_path / "threads.db"
    async with await ThreadStore.open(f"sqlite:///{path}") as store:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="write lock") as caught:
            await write_turns(store, [facts()])
        assert caught.value.transient
        assert (await count_rows(store)).threads == 0  # readers go on
        holder.execute("ROLLBACK")
        holder.close()
        assert (await write_turns(store, [facts()])).inserted == 1


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    path.write_text("this is a letter, not a database. " * 100)
    with pytest.raises(StoreError, match="no SQLite database: set TURNMILL_STORE") as caught:
        await ThreadStore.open(f"sqlite:///{path}")
    assert not caught.value.transient
    assert path.read_text().startswith("this is a letter")


async def test_a_path_that_can_not_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="TURNMILL_STORE"):
        await ThreadStore.open(f"sqlite:///{tmp_path / 'file' / 'threads.db'}")
    with pytest.raises(StoreError, match="can't be opened: check the path"):
        await ThreadStore.open(f"sqlite:///{tmp_path}")


async def test_a_cancelled_write_ends_its_transaction_first(store: ThreadStore) -> None:
    task = asyncio.create_task(write_turns(store, [facts()]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await write_turns(store, [facts()])).unchanged == 1


@pytest.mark.parametrize(
    ("error", "advice", "transient"),
    [
        (asyncpg.InvalidPasswordError('password authentication failed for user "me"'), "is refused", False),
        (asyncpg.DiskFullError("could not extend file"), "disk is full", True),
        (asyncpg.TooManyConnectionsError("sorry"), "no free connection", True),
        (asyncpg.DeadlockDetectedError("deadlock"), "lost against another", True),
        (asyncpg.ReadOnlySQLTransactionError("no"), "read-only", True),
        (asyncpg.CannotConnectNowError("starting up"), "starting or stopping", True),
        (asyncpg.UndefinedTableError("turns"), "store migrate", False),
        (asyncpg.InterfaceError("connection is closed"), "can't be reached", True),
        (TimeoutError(), "can't be reached", True),
        (sqlite3.OperationalError("database or disk is full"), "make room", True),
        (sqlite3.OperationalError("attempt to write a readonly database"), "read-only", False),
        (sqlite3.DatabaseError("database disk image is malformed"), "damaged", False),
        (
            asyncpg.CheckViolationError("of something new\nDETAIL: the row"),
            "refused: CheckViolationError: of something",
            False,
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_failure_has_its_advice(error: Exception, advice: str, transient: bool) -> None:  # noqa: FBT001  # pytest passes it by name
    told = store_error(error, "postgresql://me:secret@host/db")
    assert advice in str(told)
    assert told.transient is transient
    assert "secret" not in str(told)
    assert "DETAIL" not in str(told)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.DataError("invalid input for query argument $1"),
        asyncpg.UniqueViolationError("agents_pkey"),
        asyncpg.NotNullViolationError("status"),
        asyncpg.ProgramLimitExceededError("index row size 3000 exceeds btree version 4 maximum 2704"),
        asyncpg.StatementTooComplexError("stack depth limit exceeded"),
        asyncpg.RaiseError("no rows of this agent, says a trigger"),
        sqlite3.IntegrityError("UNIQUE constraint failed: agents.agent_id"),
        sqlite3.IntegrityError("no rows of this agent, says a trigger"),
        sqlite3.OperationalError("integer overflow"),
        sqlite3.DataError("string or blob too big"),
        sqlite3.ProgrammingError("Error binding parameter 3: type 'dict' is not supported"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_data_is_to_blame_for(error: Exception) -> None:
    assert type(store_error(error, "sqlite:///x")) is UnstorableData
