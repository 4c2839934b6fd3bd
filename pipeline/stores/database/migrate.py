"""The schema's revision: read it, upgrade it, refuse what does not fit."""

import asyncio
import threading
from importlib import import_module
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from pipeline.stores.database.engine import WRITE
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.failures import MIGRATE
from pipeline.stores.database.schema import compatibility, threads, turns

FOLDER: Final = Path(__file__).parent / "migrations"
VERSION_TABLE: Final = "turnmill_version"
# Files are named REVISION_what.py with rising numbers, so that only a migration imports Alembic, which is slow.
REVISIONS: Final = tuple(sorted(path.stem.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*.py")))
BASELINE: Final = REVISIONS[0]
HEAD: Final = REVISIONS[-1]
UNKNOWN: Final = (
    "the store's tables were made before Turnmill's first schema, by a version that was never released: name another "
    "database or file in TURNMILL_STORE, and `turnmill replay` stores again what the topics still hold"
)
LOCK_KEY: Final = 0x74726E6D696C6C  # of Postgres' advisory lock: "trnmill"

_alembic = threading.Lock()  # its `op` and `context` are global to the process


async def current(connection: AsyncConnection) -> str | None:
    """Return the schema's revision; None without tables. Raises StoreError for tables from before the baseline."""
    tables = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    if VERSION_TABLE not in tables:
        if {threads.name, turns.name} <= {*tables}:
            raise StoreError(UNKNOWN)
        return None
    version: str | None = await connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608  # ours
    if version is not None and version < BASELINE:
        raise StoreError(UNKNOWN)
    return version


async def oldest(connection: AsyncConnection) -> str | None:
    """Return the oldest revision whose code works with the schema that the store has."""
    if not await connection.run_sync(lambda sync: inspect(sync).has_table(compatibility.name)):
        return None
    return await connection.scalar(select(compatibility.c.oldest))


def check(revision: str | None, oldest: str | None = None) -> None:
    """Raise StoreError unless this code works with the schema: its own, or a newer with an `oldest` up to HEAD."""
    if revision == HEAD:
        return
    if revision is None:
        raise StoreError(f"the store has no Turnmill tables yet: {MIGRATE}")
    if revision > HEAD:
        if oldest is not None and oldest <= HEAD:
            return
        raise StoreError(
            f"the store's schema is of revision {revision}, newer than this Turnmill ({HEAD}): update Turnmill"
        )
    raise StoreError(f"the store's schema is of revision {revision}, this Turnmill needs {HEAD}: {MIGRATE}")


async def upgrade(engine: AsyncEngine) -> str | None:
    """Bring the schema up to date, in a transaction; return the revision before.

    Several processes may call it at once: Postgres' advisory lock, or SQLite's write lock (BEGIN IMMEDIATE), admits
    one, and the others find nothing left to do. A newer schema that this code works with is left alone; raises
    StoreError for any other.
    """
    async with engine.execution_options(**{WRITE: True}).begin() as connection:
        if connection.dialect.name == "postgresql":
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
        before = await current(connection)
        newer = before is not None and before > HEAD
        if newer:
            check(before, await oldest(connection))
        if before != HEAD and not newer:
            await asyncio.to_thread(_prepare)
            try:
                await connection.run_sync(_run)
            finally:
                _alembic.release()
        return before


def _prepare() -> None:
    """Load Alembic, which blocks for some 0.3 s, and wait until no other migration uses it."""
    import_module("alembic.command")
    _alembic.acquire()


def wait_for_writers(connection: Connection) -> None:
    """Block writers until the transaction ends, after those in progress; readers go on."""
    if connection.dialect.name == "postgresql" and inspect(connection).has_table(VERSION_TABLE):
        # In the order in which writers lock them: revisions use another order, and could deadlock with writers.
        connection.execute(text("LOCK TABLE threads, turns, usage IN SHARE ROW EXCLUSIVE MODE"))


def _run(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415  # see REVISIONS
    from alembic.config import Config  # noqa: PLC0415  # the same

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    wait_for_writers(connection)
    command.upgrade(config, "head")
