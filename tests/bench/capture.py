"""What capturing its model calls costs a program, beside the same program alone: CPU, and time to the first byte."""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.settings import Settings
from tests.bench.chat_server import PACE, TOKENS
from tests.bench.worker import environment
from turnmill.errors import BrokerError

PLAIN: Final = "plain"
MODES: Final = {PLAIN: "nothing is captured", "run": "`turnmill run`", "client": "`turnmill.async_client()`"}
STREAMS: Final = (1, 20)  # at the same time
SHORT_TOKENS: Final = 5
SCRIPTS: Final = 9  # runs of a program with one call, of each mode in turn
THINKING: Final = 0.05  # seconds until a short stream begins: less than models take


@dataclass(frozen=True, slots=True)
class Captured:
    """By mode: `cpu`, seconds of a program that reads `streams` streams of TOKENS events at PACE a second; `first`,
    milliseconds to the first byte of streams that it reads one after the other; `script`, seconds from the start to the
    end of one that makes a single call.
    """

    streams: int
    cpu: dict[str, float]
    first: dict[str, list[float]]
    script: dict[str, list[float]]

    def cost(self, mode: str) -> float:
        """CPU µs an event."""
        return self.cpu[mode] / self.streams / TOKENS * 1e6

    def ratio(self, mode: str) -> float:
        """CPU in this mode by that of the program alone."""
        return self.cpu[mode] / self.cpu[PLAIN]

    def median(self, mode: str) -> float:
        """Milliseconds to the first byte."""
        return statistics.median(self.first[mode])

    def later(self, mode: str) -> float:
        """Milliseconds that the first byte comes later than in the program alone."""
        return self.median(mode) - self.median(PLAIN)

    def script_later(self, mode: str) -> float:
        """Seconds that a program with one call takes longer than alone."""
        return statistics.median(self.script[mode]) - statistics.median(self.script[PLAIN])

    def first_ratio(self, mode: str) -> float:
        """The median of these by that of the program alone."""
        return self.median(mode) / self.median(PLAIN)


async def measure(settings: Settings, streams: int) -> Captured:
    """Run the program in each mode; the topics must exist."""
    cpu, first = {}, {}
    script: dict[str, list[float]] = {mode: [] for mode in MODES}
    async with _upstream() as url:
        for mode in [*MODES] * SCRIPTS:
            began = time.monotonic()
            await _program(settings, url, mode, 0)
            script[mode].append(time.monotonic() - began)
        for mode in MODES:
            told = await _program(settings, url, mode, streams)
            cpu[mode], first[mode] = told["cpu"], told["first"]
    return Captured(streams, cpu, first, script)


async def _program(settings: Settings, url: str, mode: str, streams: int) -> dict:  # type: ignore[type-arg]  # its JSON
    runner = (str(Path(sys.executable).with_name("turnmill")), "run", "--") if mode == "run" else ()
    variables = {**environment(settings), "TURNMILL_CAPTURE_HOSTS": "127.0.0.1"}
    program = ("-m", "tests.bench.captured_program", url, mode, str(streams))
    process = await asyncio.create_subprocess_exec(
        *runner, sys.executable, *program, env=variables, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await process.communicate()
    if process.returncode:
        raise BrokerError(f"the program failed:\n{errors.decode()[-1_000:]}")
    return dict(json.loads(out))


@asynccontextmanager
async def _upstream() -> AsyncIterator[str]:
    """A model's server: at a steady pace under `/paced`, all at once under `/short`."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            await _answer(writer, paced=b" /paced/" in head)
    writer.close()


async def _answer(writer: asyncio.StreamWriter, *, paced: bool) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    await asyncio.sleep(0 if paced else THINKING)
    tokens, began = TOKENS if paced else SHORT_TOKENS, time.monotonic()
    for number in range(tokens):
        if paced:
            await asyncio.sleep(max(0.0, began + number / PACE - time.monotonic()))
        reason = "stop" if number == tokens - 1 else None
        choice = {"index": 0, "delta": {"content": f" word{number}"}, "finish_reason": reason}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        _write(writer, b"data: " + json.dumps(chunk).encode() + b"\n\n")
    _write(writer, b"data: [DONE]\n\n")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
