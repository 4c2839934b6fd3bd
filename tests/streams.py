"""How many programs a gateway tells of commands at once: `python -m tests.streams [--streams N] [--commands N]`.

N streams of `GET /v1/control` are opened at a gateway in a process of its own; then runs are told to stop, one by one.
Measured are the time from each request until a stream has the command, over all streams and commands, the memory that
the gateway took for the streams, and the processor time that it took for a command.
"""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Final

import click

from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.support.gateways import client
from tests.support.places import CACHE
from tests.support.servers import kafka
from tests.support.waiting import until
from tests.support.workers import environment

AT_ONCE: Final = 100  # streams that are being opened
REQUEST: Final = b"GET /v1/control HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Streams:
    """Open streams; `heard`: when each had the newest command, by `time.perf_counter()`."""

    def __init__(self, port: int) -> None:
        self.heard: list[float] = []
        self._port = port
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.reading: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Open one more."""
        async with self._slots:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(REQUEST)
            assert b" 200 " in await reader.readline()
            await reader.readuntil(b"commands to runs")
        self.reading.append(asyncio.create_task(self._read(reader, writer)))

    async def _read(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line.startswith(b"data:"):
                self.heard.append(time.perf_counter())


def resident(pid: int) -> float:
    """MB of memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu(pid: int) -> float:
    """Seconds of processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def play(settings: Settings, streams: int, commands: int, pid: int) -> None:
    """Measure, and print it."""
    async with client(f"http://127.0.0.1:{settings.gateway_port}") as http:

        async def ready() -> bool:
            try:
                return (await http.get("/v1/commands/none")).status_code == 404
            except OSError:
                return False
            except Exception as error:
                if "connect" not in type(error).__name__.lower():
                    raise
                return False

        await until(ready)
        before, began = resident(pid), time.perf_counter()
        open_ones = Streams(settings.gateway_port)
        await asyncio.gather(*(open_ones.open() for _ in range(streams)))
        opened, took = resident(pid), time.perf_counter() - began
        click.echo(f"{streams:,} streams opened in {took:.1f} s: {opened - before:.0f} MB more, of {opened:.0f} MB")
        waited: list[float] = []
        used = cpu(pid)
        for number in range(commands):
            open_ones.heard.clear()
            at = time.perf_counter()
            (await http.post(f"/v1/threads/t{number}/runs/r/stop", headers={"X-Turnmill": "1"})).raise_for_status()

            async def all_of_them() -> bool:
                return len(open_ones.heard) >= streams

            await until(all_of_them)
            waited += [1000 * (one - at) for one in open_ones.heard]
        each = (cpu(pid) - used) / commands
        cuts = quantiles(waited, n=100, method="inclusive")
        click.echo(
            f"{commands} commands to all of them: p50 {cuts[49]:.0f} ms, p99 {cuts[98]:.0f} ms, "
            f"last {max(waited):.0f} ms; {each:.2f} s of the gateway's processor time each"
        )


@click.command()
@click.option("--streams", default=10_000, show_default=True)
@click.option("--commands", default=10, show_default=True)
def main(streams: int, commands: int) -> None:
    """Measure a gateway with many programs that hear commands."""
    with TemporaryDirectory() as folder, kafka(Path(folder)) as cluster:
        settings = Settings(
            home=Path(folder),
            cache=CACHE,
            brokers=cluster.bootstrap,
            partitions=1,
            gateway_port=free_ports(1)[0],
            gateway_connections=streams + 100,
        )
        asyncio.run(apply_topics(settings))
        program = [sys.executable, "-m", "pipeline", "gateway"]
        with (Path(folder) / "gateway.log").open("wb") as log:
            gateway = subprocess.Popen(program, env=environment(settings), stdout=log, stderr=log)
        try:
            asyncio.run(play(settings, streams, commands, gateway.pid))
        finally:
            gateway.terminate()
            gateway.wait()


if __name__ == "__main__":
    main()
