"""Says when threads arrive in a store: python -m tests.bench.arrivals URL, by lines of `KEY SECONDS`.

The seconds are those of time.monotonic(), the same for all processes of a machine. In the process that publishes, each
look would wait for what else that does.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Final

import click
from sqlalchemy import func, select

from pipeline.stores.database.engine import create_engine
from pipeline.stores.database.schema import threads

STEP: Final = 0.003  # seconds between two looks: a figure is too high by this, and a look's own time, at most
COUNT: Final = select(func.count()).select_from(threads)
KEYS: Final = select(threads.c.thread_id)


@asynccontextmanager
async def arrivals(url: str) -> AsyncIterator[AsyncIterator[tuple[str, float]]]:
    """-> the threads that arrive from now on, each with its time."""
    command = (sys.executable, "-m", "tests.bench.arrivals", url)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None  # a pipe
    await process.stdout.readline()  # it looks
    try:
        yield _read(process.stdout)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _read(lines: asyncio.StreamReader) -> AsyncIterator[tuple[str, float]]:
    async for line in lines:
        key, _, at = line.decode().partition(" ")
        yield key, float(at)


async def main(url: str) -> None:
    """Look until killed."""
    engine, seen = create_engine(url), set[str]()
    click.echo()
    while True:
        async with engine.connect() as connection:
            more = await connection.scalar(COUNT) != len(seen)
            now = monotonic()
            new = [key for key in await connection.scalars(KEYS) if key not in seen] if more else []
        seen.update(new)
        if new:
            click.echo("\n".join(f"{key} {now}" for key in new))
        await asyncio.sleep(STEP)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
