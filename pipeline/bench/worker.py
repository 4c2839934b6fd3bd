"""Threadmill under measurement: a real `threadmill worker` as a process of its own, watched from outside."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from pipeline.errors import BrokerError
from pipeline.kafka.processes import last_lines
from pipeline.settings import PREFIX, Settings

READY_WITHIN = 60.0
STOP_WITHIN = 25.0


def environment(settings: Settings) -> dict[str, str]:
    """The variables that give a process exactly these settings."""
    values = settings.model_dump(exclude_none=True)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(PREFIX)},
        **{PREFIX + name.upper(): str(value) for name, value in values.items()},
    }


class Worker:
    """A worker that runs."""

    def __init__(self, settings: Settings, http: aiohttp.ClientSession) -> None:
        self.url = f"http://{settings.host}:{settings.port}"
        self.http = http
        self.began = 0.0  # time.monotonic() when it was seen not to read yet for the last time

    async def started(self, process: Process, log: Path) -> None:
        """Wait until it reads."""
        deadline = time.monotonic() + READY_WITHIN
        while True:
            asked = time.monotonic()
            try:
                async with self.http.get(f"{self.url}/readyz") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            self.began = asked
            if process.returncode is not None or asked > deadline:
                raise BrokerError(f"the worker did not get ready:\n{last_lines(log)}")
            await asyncio.sleep(0.02)

    async def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        async with self.http.get(f"{self.url}/metrics") as response:
            lines = (await response.text()).splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))


@asynccontextmanager
async def worker(settings: Settings, roles: str) -> AsyncIterator[Worker]:
    """A worker that is ready; it is stopped with the block."""
    log = settings.home / f"{settings.topic_prefix}-worker.log"
    command = [sys.executable, "-m", "pipeline", "worker", "--roles", roles]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment(settings), stdout=output, stderr=output
        )
    try:
        async with aiohttp.ClientSession() as http:
            running = Worker(settings, http)
            await running.started(process, log)
            yield running
            process.terminate()
            await asyncio.wait_for(process.wait(), STOP_WITHIN)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
