"""The CPU that publishing costs a chat server, beside the same streams unpublished."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.bench.chat_server import PACE, TOKENS
from tests.bench.listening import listening
from tests.bench.worker import environment

PLAIN: Final = "plain"
MODES: Final = {PLAIN: "nothing is published", "tee": "`run.tee`", "middleware": "the middleware"}
STREAMS: Final = (1, 20)  # at the same time


@dataclass(frozen=True, slots=True)
class Publishing:
    """`cpu`: mode -> CPU seconds of a server with `streams` streams of TOKENS events at PACE a second."""

    streams: int
    cpu: dict[str, float]

    def cost(self, mode: str) -> float:
        """CPU µs an event."""
        return self.cpu[mode] / self.streams / TOKENS * 1e6

    def ratio(self, mode: str) -> float:
        """CPU in this mode by CPU of the same streams unpublished."""
        return self.cpu[mode] / self.cpu[PLAIN]

    def of_a_core(self, mode: str) -> float:
        """The share of a core that publishing one stream takes."""
        return (self.cost(mode) - self.cost(PLAIN)) / 1e6 * PACE


async def measure(settings: Settings, streams: int) -> Publishing:
    """Serve `streams` at once in each mode; the topics must exist."""
    cpu = {}
    for mode in MODES:
        async with _server(settings, mode) as url, aiohttp.ClientSession() as http:
            await asyncio.gather(*(_read(http, url, tokens=20) for _ in range(streams)))  # warm
            before = await _cpu(http, url)
            await asyncio.gather(*(_read(http, url) for _ in range(streams)))
            cpu[mode] = await _cpu(http, url) - before
    return Publishing(streams, cpu)


async def _read(http: aiohttp.ClientSession, url: str, tokens: int | None = None) -> None:
    """Read a stream to its end, or its first `tokens` lines."""
    async with http.get(f"{url}/chat") as response:
        seen = 0
        async for _ in response.content:
            seen += 1
            if tokens is not None and seen > tokens:
                return


async def _cpu(http: aiohttp.ClientSession, url: str) -> float:
    await asyncio.sleep(0.5)  # until the server has cleaned up after the streams before
    async with http.get(f"{url}/cpu") as response:
        return float(await response.text())


@asynccontextmanager
async def _server(settings: Settings, mode: str) -> AsyncIterator[str]:
    (port,) = free_ports(1)
    log, variables = settings.home / f"chat-{mode}-{port}.log", environment(settings)
    async with listening("tests.bench.chat_server", port, mode, variables=variables, log=log):
        yield f"http://127.0.0.1:{port}"
