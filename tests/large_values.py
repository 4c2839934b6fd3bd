"""Time of large values on their way into a content store, by size: `python -m tests.large_values [URL]`.

As a worker writes them: 16 at a time, each of a thread of its own. Without a URL, in a new folder here.
"""

import asyncio
import os
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Final

import click

from pipeline.stores.content.offload import CONCURRENCY
from pipeline.stores.content.store import ContentStore
from topics.thread_key import ThreadKey

SIZES: Final = (77_000, 150_000)  # bytes: a run's tool results in the benchmark are so large on average, and at most
VALUES: Final = 1_000


async def measured(url: str, size: int) -> tuple[float, float]:
    """Write VALUES values. Return the microseconds of CPU and of wall clock that each has taken."""
    contents, slots, noise = ContentStore(url), asyncio.Semaphore(CONCURRENCY), os.urandom(size)
    await contents.put(ThreadKey(str(uuid.uuid4())), noise, "text/plain")  # opens what stays open

    async def put(number: int) -> None:
        async with slots:
            data = b"%016d" % number + noise[16:]
            await contents.put(ThreadKey(str(uuid.uuid4())), data, "text/plain")

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(put(number) for number in range(VALUES)))
    return (time.process_time() - cpu) * 1e6 / VALUES, (time.perf_counter() - wall) * 1e6 / VALUES


def main() -> None:
    """Print a line for each size."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for size in SIZES:
            cpu, wall = asyncio.run(measured(sys.argv[1] if sys.argv[1:] else f"{Path(folder).as_uri()}/{size}", size))
            click.echo(f"{size:,} bytes: {cpu:,.0f} µs of CPU, {wall:,.0f} µs of wall clock a value")


if __name__ == "__main__":
    main()
