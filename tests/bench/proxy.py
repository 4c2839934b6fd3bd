"""What the gateway's proxy adds to a program's calls: time to the first byte, and CPU, beside the provider alone."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import aiohttp

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.bench.chat_server import TOKENS
from tests.bench.listening import listening
from tests.bench.worker import gateway
from turnmill.errors import BrokerError

DIRECT: Final = "direct"
MODES: Final = {
    DIRECT: "the provider alone",
    "passed": "through the proxy, unpublished",
    "published": "through the proxy, published",
}
PATHS: Final = {"passed": "/proxy/bench/v1/other", "published": "/proxy/bench/v1/chat/completions"}
STREAMS: Final = 20  # at the same time
CALLS: Final = 300  # one after the other, of 20 tokens without a pause
WARM: Final = 30
SHORT: Final = 20  # tokens
PAUSE: Final = 0.05  # seconds between two calls


@dataclass(frozen=True, slots=True)
class Proxied:
    """Mode -> figures. `ms`: to the first byte of each call, ascending. `program`, `proxy`: CPU seconds of the program
    and of the gateway for STREAMS streams of TOKENS tokens.
    """

    ms: dict[str, list[float]]
    program: dict[str, float]
    proxy: dict[str, float]

    def cost(self, mode: str) -> float:
        """CPU µs of the gateway for a token."""
        return self.proxy[mode] / STREAMS / TOKENS * 1e6

    def ratio(self, mode: str) -> float:
        """CPU of program and gateway by that of the program straight to the provider."""
        return (self.program[mode] + self.proxy[mode]) / self.program[DIRECT]


async def measure(settings: Settings) -> Proxied:
    """Measure on topics that exist. Raises BrokerError where an answer is not whole."""
    provider, port = free_ports(2)
    changes = {"gateway_proxy": f"bench=http://127.0.0.1:{provider}", "gateway_port": port, "gateway_rate": 0.0}
    settings = settings.model_copy(update=changes)
    found = Proxied({}, {}, {})
    async with (
        listening("tests.bench.provider", provider),
        gateway(settings) as running,
        aiohttp.ClientSession() as http,
    ):
        for mode in MODES:
            direct = mode == DIRECT
            url = f"http://127.0.0.1:{provider}/v1/chat/completions" if direct else running.url + PATHS[mode]
            found.ms[mode] = sorted([await _first_byte(http, url) for _ in range(WARM + CALLS)][WARM:])
            before = await _cpu(running.cpu)
            program = time.process_time()
            await asyncio.gather(*(_read(http, url) for _ in range(STREAMS)))
            found.program[mode] = time.process_time() - program
            found.proxy[mode] = 0.0 if direct else await _cpu(running.cpu) - before
    return found


def _body(**more: int) -> dict[str, object]:
    """A request of a conversation of its own."""
    return {
        "model": "bench",
        "messages": [{"role": "user", "content": f"Hello {uuid.uuid4()}"}],
        "stream": True,
        **more,
    }


async def _first_byte(http: aiohttp.ClientSession, url: str) -> float:
    began = time.perf_counter()
    async with http.post(url, json=_body(max_tokens=SHORT)) as answer:
        await answer.content.readany()
        took = (time.perf_counter() - began) * 1000
        await answer.read()
    await asyncio.sleep(PAUSE)  # no program asks its next question before it has read the answer
    return took


async def _read(http: aiohttp.ClientSession, url: str) -> None:
    """Read a stream as an SDK does: line by line."""
    seen = 0
    async with http.post(url, json=_body()) as answer:
        async for line in answer.content:
            seen += line.startswith(b"data: ")
    if seen != TOKENS + 2:
        raise BrokerError(f"a stream had {seen} of {TOKENS + 2} events")


async def _cpu(cpu: Callable[[], Awaitable[float]]) -> float:
    await asyncio.sleep(1.0)  # until what was said is published
    return await cpu()
