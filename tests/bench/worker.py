"""A real worker or gateway as a process of its own, measured through its HTTP endpoints."""

import asyncio
import os
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp

from pipeline.devbroker.processes import last_lines
from pipeline.settings import Settings
from turnmill.errors import BrokerError
from turnmill.settings import PREFIX

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
    """A running worker or gateway."""

    def __init__(self, url: str, http: aiohttp.ClientSession, pid: int) -> None:
        self.url = url
        self.http = http
        self.pid = pid
        self.began = 0.0  # time.monotonic() of the last check at which it was not ready yet

    async def started(self, process: Process, log: Path) -> None:
        """Wait until it is ready. Raises BrokerError where it ends or takes longer than READY_WITHIN."""
        deadline = time.monotonic() + READY_WITHIN
        while True:
            asked = time.monotonic()
            try:
                if await self.ready():
                    return
            except aiohttp.ClientError:
                pass
            self.began = asked
            if process.returncode is not None or asked > deadline:
                raise BrokerError(f"turnmill did not get ready:\n{last_lines(log)}")
            await asyncio.sleep(0.02)

    async def ready(self) -> bool:
        """Whether it does its work now."""
        async with self.http.get(f"{self.url}/readyz") as response:
            return response.status == 200

    async def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        async with self.http.get(f"{self.url}/metrics") as response:
            lines = (await response.text()).splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))

    async def cpu(self) -> float:
        """CPU seconds so far, user and system; 0 where the system does not tell them (Linux does)."""
        return await self.metric("process_cpu_seconds_total")

    async def memory(self) -> float:
        """Resident bytes; 0 where the system does not tell them."""
        return await self.metric("process_resident_memory_bytes")

    def connections(self, port: int) -> int | None:
        """The number of its TCP connections to this port; None where the system does not tell it."""
        try:
            links = {str(link.readlink()) for link in Path(f"/proc/{self.pid}/fd").iterdir()}
            rows = [line.split() for line in Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]]
        except OSError:
            return None
        return sum(remote.endswith(f":{port:04X}") and f"socket:[{row[6]}]" in links for _, _, remote, *row in rows)


def worker(settings: Settings, roles: str, processes: int = 1) -> AbstractAsyncContextManager[Worker]:
    """A worker that is ready; it stops with the block."""
    command = ("--roles", roles, "--processes", str(processes))
    return _running(settings, f"http://{settings.host}:{settings.port}", "worker", *command)


def gateway(settings: Settings) -> AbstractAsyncContextManager[Worker]:
    """A gateway that is ready; it stops with the block."""
    return _running(settings, f"http://{settings.gateway_host}:{settings.gateway_port}", "gateway")


@asynccontextmanager
async def _running(settings: Settings, url: str, *command: str) -> AsyncIterator[Worker]:
    log = settings.home / f"{settings.topic_prefix}-{command[0]}-{url.rpartition(':')[2]}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pipeline", *command), env=environment(settings), stdout=output, stderr=output
        )
    try:
        async with aiohttp.ClientSession() as http:
            running = Worker(url, http, process.pid)
            await running.started(process, log)
            yield running
            process.terminate()
            await asyncio.wait_for(process.wait(), STOP_WITHIN)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
