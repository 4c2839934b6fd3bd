"""Servers of the benchmark's own, as processes that are stopped at the end."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from pipeline.devbroker.processes import last_lines
from tests.bench.worker import READY_WITHIN
from turnmill.errors import BrokerError


@asynccontextmanager
async def listening(
    module: str, port: int, *more: str, variables: Mapping[str, str] | None = None, log: Path | None = None
) -> AsyncIterator[None]:
    """`python -m MODULE PORT …` during the block, from when it takes connections on; `log` takes what it prints.

    Raises BrokerError where it ends before, or is not ready within READY_WITHIN seconds.
    """
    command = [sys.executable, "-m", module, str(port), *more]
    with ExitStack() as stack:
        output = None if log is None else stack.enter_context(log.open("wb"))
        process = await asyncio.create_subprocess_exec(*command, env=variables, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + READY_WITHIN
        while True:
            try:
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                break
            except OSError:
                if process.returncode is not None or time.monotonic() > deadline:
                    said = "" if log is None else f":\n{last_lines(log)}"
                    raise BrokerError(f"{module} did not get ready{said}") from None
                await asyncio.sleep(0.05)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
