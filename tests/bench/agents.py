"""Agents that publish over HTTP, thousands at once: `python -m tests.bench.agents --agents 10000 --gateways 2 --kill`.

Each agent has a connection of its own, on which it posts a record of its run every PACE seconds, and waits for the
answer, which comes when the broker has the record. One that gets none goes to the next gateway, and posts the record
again. A worker stores all runs, of which none may lack an event.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
import tempfile
import time
import uuid
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from docs.generate import markdown
from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings, load
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from tests.bench.load_topics import until
from tests.bench.worker import environment, worker
from turnmill.clock import now_ms
from turnmill.errors import BrokerError
from turnmill.wire.envelope import VERSION, encode

HOST: Final = "127.0.0.1"
TAKEN: Final = b'{"records":1,"refusals":[]}'
ESTABLISHED: Final = "01"  # in /proc/net/tcp
READY_WITHIN: Final = 60.0  # seconds
POST: Final = (
    "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: {}\r\n\r\n"
)
EVENTS: Final = 8  # of a record
ANSWER_WITHIN: Final = 60.0  # seconds
AGAIN: Final = 1.0  # seconds at most between an agent's tries
STORED_WITHIN: Final = 600.0
OPENED: Final = 250  # connections a second, at first
EVERY: Final = 0.5  # seconds between two looks at a gateway


@dataclass(frozen=True, slots=True)
class Load:
    """What is done: so many agents, each with a run of so many records, one every `pace` seconds."""

    agents: int
    gateways: int
    records: int
    pace: float
    kill: bool


@dataclass(slots=True)
class Figures:
    """Of a gateway, at most: `connections` of agents, resident bytes, CPU seconds."""

    connections: int = 0
    memory: int = 0
    cpu: float = 0.0


@dataclass(slots=True)
class Seen:
    """What was seen. `ms`: from a record's first post to its answer.

    `moved`: as `ms`, of the records that were confirmed by another gateway than the one before.
    """

    ms: list[float] = field(default_factory=list)
    seconds: float = 0.0
    gateways: list[Figures] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)


class Gateway:
    """A gateway as a process, and what it takes."""

    def __init__(self, process: Process, port: int) -> None:
        self.figures = Figures()
        self._process = process
        self._port = f":{port:04X}"

    @classmethod
    async def start(cls, settings: Settings, stack: AsyncExitStack) -> Gateway:
        """Start it; it ends with the stack."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pipeline", "gateway"), env=environment(settings), stdout=DEVNULL
        )
        one = cls(process, settings.gateway_port)
        stack.push_async_callback(one.kill)

        async def answers() -> bool:
            try:
                (await asyncio.open_connection(HOST, settings.gateway_port))[1].close()
            except OSError:
                return False
            return True

        await until(answers, READY_WITHIN, "a gateway listened")
        return one

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def look(self) -> None:
        """Note what it takes now, unless it has ended."""
        folder = Path(f"/proc/{self._process.pid}")
        try:
            resident = int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            spent = (folder / "stat").read_text().rpartition(")")[2].split()
            rows = (line.split() for line in (folder / "net" / "tcp").read_text().splitlines()[1:])
        except OSError:
            return
        agents = sum(mine.endswith(self._port) and state == ESTABLISHED for _, mine, _, state, *_ in rows)
        self.figures.connections = max(self.figures.connections, agents)
        self.figures.memory = max(self.figures.memory, resident)
        self.figures.cpu = (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")


class Agent:
    """An agent with a run."""

    def __init__(self, number: int, ports: Sequence[int], seen: Seen) -> None:
        self.number = number
        self._at = number % len(ports)
        self._ports = ports
        self._seen = seen
        self._wire: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._base = {"v": VERSION, "thread_id": str(uuid.UUID(int=number + 1, version=4)), "run_id": "r"}
        self._base |= {"agent_id": "bench", "dialect": "vercel-ai"}

    async def run(self, begin: float, load: Load) -> None:
        """Post the records, the first at `begin`; the next is late where the answer to the one before was late."""
        for place in range(load.records):
            await asyncio.sleep(begin + place * load.pace - time.monotonic())
            value = encode({**self._base, "seq": place * EVENTS, "ts": now_ms(), **_part(place, load.records)})
            head = POST.format(len(value)).encode()
            began = time.monotonic()
            before = self._at
            while not await self._posted(head + value):
                self._at = (self._at + 1) % len(self._ports)
                await asyncio.sleep(random.uniform(0, AGAIN))  # so that not all come at once
            now = time.monotonic()
            (self._seen.ms if self._at == before else self._seen.moved).append((now - began) * 1000)
        if self._wire is not None:
            self._wire[1].close()

    async def _posted(self, request: bytes) -> bool:
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                if self._wire is None:
                    self._wire = await asyncio.open_connection(HOST, self._ports[self._at])
                reader, writer = self._wire
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                body = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            if self._wire is not None:
                self._wire[1].close()
            self._wire = None
            return False
        if body != TAKEN:
            raise BrokerError(f"a gateway answered {head + body!r}")
        return True


def _part(place: int, records: int) -> dict[str, Any]:
    """-> the events of a record of a run with so many."""
    deltas: list[dict[str, Any]] = [{"type": "text-delta", "id": "t", "delta": f" word {n}"} for n in range(EVENTS)]
    if place == 0:
        deltas[:3] = [{"type": "start"}, {"type": "start-step"}, {"type": "text-start", "id": "t"}]
    if place < records - 1:
        return {"events": deltas}
    deltas[-3:] = [{"type": "text-end", "id": "t"}, {"type": "finish-step"}, {"type": "finish"}]
    return {"events": deltas, "end": "complete"}


async def measure(settings: Settings, load: Load, progress: Callable[[str], None]) -> Seen:
    """Measure on topics that exist. Raises BrokerError where a run is not stored as a whole."""
    ports = free_ports(load.gateways)
    store, most = f"sqlite:///{settings.home / 'agents.db'}", 2 * load.agents
    wide = {"gateway_rate": 0.0, "gateway_connections": most, "gateway_caller_requests": most}
    settings = settings.model_copy(update={"store": store, **wide})
    await (await ThreadStore.open(store, migrate=True)).close()
    seen = Seen()
    async with worker(settings, "assemble,store"), AsyncExitStack() as stack:
        running = [await Gateway.start(settings.model_copy(update={"gateway_port": port}), stack) for port in ports]
        looking = asyncio.create_task(_look(running))
        everyone = [Agent(number, ports, seen) for number in range(load.agents)]
        begin, opening = time.monotonic() + 1, max(load.agents / OPENED, load.pace)
        progress(f"{load.agents:,} agents come within {opening:.0f} s, and post {load.records} records each")
        async with asyncio.TaskGroup() as tasks:
            for agent in everyone:
                tasks.create_task(agent.run(begin + opening * agent.number / load.agents, load))
            if load.kill:
                await asyncio.sleep(1 + opening + load.pace / 2)  # all are there
                progress("a gateway is killed")
                await running[0].kill()
        looking.cancel()
        seen.seconds = time.monotonic() - begin
        seen.gateways = [one.figures for one in running]
        progress("all is confirmed; the store takes the rest")
        async with await ThreadStore.open(store) as stored:

            async def all_stored() -> bool:
                return (await count_rows(stored)).turns >= load.agents

            await until(all_stored, STORED_WITHIN, f"{load.agents:,} runs were stored")
            counts = await count_rows(stored)
    if (counts.turns, counts.interrupted) != (load.agents, 0):
        raise BrokerError(f"of {load.agents:,} runs {counts.turns:,} are stored, {counts.interrupted:,} lack events")
    return seen


async def _look(running: Sequence[Gateway]) -> None:
    while True:
        for one in running:
            one.look()
        await asyncio.sleep(EVERY)


def row(load: Load, seen: Seen) -> tuple[str, ...]:
    """-> a row of the page's table."""
    ms = sorted(seen.ms)
    p50, p99 = (ms[int(len(ms) * share)] for share in (0.5, 0.99))
    moved = f"{len(seen.moved):,} in {max(seen.moved) / 1000:.1f} s at most" if seen.moved else "–"
    return (
        f"{load.agents:,}",
        f"{load.gateways}" + (", one killed" if load.kill else ""),
        f"{load.agents * load.records / seen.seconds:,.0f}",
        " / ".join(f"{one.connections:,}" for one in seen.gateways),
        " / ".join(f"{one.memory / 1e6:.0f} MB" for one in seen.gateways),
        " / ".join(f"{one.cpu / seen.seconds:.0%}" for one in seen.gateways),
        f"{p50:.0f} ms",
        f"{p99:.0f} ms",
        moved,
    )


HEADER: Final = (
    *("agents", "gateways", "requests/s", "connections", "memory", "of a core", "median", "99 %"),
    "from the killed one to the other",
)


@click.command()
@click.option("--agents", default=10_000, show_default=True, type=click.IntRange(1))
@click.option("--gateways", default=1, show_default=True, type=click.IntRange(1))
@click.option("--records", default=8, show_default=True, type=click.IntRange(2), help="Of each agent.")
@click.option("--pace", default=8.0, show_default=True, help="Seconds between two records of an agent.")
@click.option("--kill", is_flag=True, help="Kill a gateway in mid-run.")
def agents(**options: Any) -> None:
    """Measure on a broker of its own, and print a row of the table in docs/operations/sizing.md."""
    wanted = Load(**options)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # gateways inherit it
    with tempfile.TemporaryDirectory(prefix="turnmill-agents-") as name:
        broker, port = free_ports(2)
        update = {"home": Path(name), "brokers": f"127.0.0.1:{broker}", "port": port, "log_level": "WARNING"}
        settings = load().model_copy(update=update)
        before = os.getloadavg()[0]
        with local.running(settings):
            asyncio.run(apply_topics(settings))
            seen = asyncio.run(measure(settings, wanted, lambda text: click.echo(text, err=True)))
    click.echo(markdown(HEADER, [row(wanted, seen)]))
    click.echo(f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after; {hard:,} files a process")


if __name__ == "__main__":
    agents()
