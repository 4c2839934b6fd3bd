"""The parent of a worker's processes: it starts them, serves their health and metrics as one, and ends with them.

It processes no records itself. When one of its children ends, for any reason, it stops the others, and ends with the
worst of their exit statuses, as one process would, so that a supervisor restarts all of them. Records that were read,
and not committed, are read again then.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import click
import orjson
from prometheus_client import CollectorRegistry, ProcessCollector

from pipeline.worker.processes.child import LENGTH_BYTES, LIVE, METRICS, READY, START
from pipeline.worker.processes.health import HealthServer, Merged, page
from pipeline.worker.processes.parts import Part

ANSWER_TIMEOUT: Final = 5.0  # seconds; a child's limit for its own event loop is shorter
BY_SIGNAL: Final = 128  # plus the signal's number: the exit status of a process ended by a signal
PARENT: Final = "parent"  # the name of the parent's own process in metrics


async def run(host: str, port: int, parts: Sequence[Part], stop_within: float) -> int:
    """Run these parts until a signal comes, or one of them ends; return the exit status. `port` 0: a free one.

    Children that run for longer than `stop_within` seconds after they were told to stop are killed. Raises CallerError
    if the port is taken.
    """
    stop_asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_asked.set)
    family = Family()
    health = HealthServer(host, port, family)
    port = await health.start()
    stopping = asyncio.ensure_future(stop_asked.wait())
    try:
        family.children = [await ChildProcess.of(part) for part in parts]
        starting = asyncio.ensure_future(_start(family, parts, f"http://{host}:{port}"))
        ends: list[asyncio.Future[Any]] = [stopping, *(child.ended for child in family.children)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        for child in family.children:
            # A child that could not start has reported why.
            if child.ended.done() and (child.started or child.status > BY_SIGNAL):
                click.echo(f"turnmill: process {child.name} ended with status {child.status}", err=True)
    finally:
        stopping.cancel()
        statuses = await asyncio.gather(*(child.stop(stop_within) for child in family.children))
        await health.stop()
    return max(statuses)


async def _start(family: Family, parts: Sequence[Part], url: str) -> None:
    try:
        await family.start()
    except ConnectionError:  # it has ended, which `run` notices
        return
    names = ", ".join(dict.fromkeys(role.name for part in parts for role in part.roles))
    click.echo(f"turnmill: {names}; {len(parts)} processes; {url}", err=True)


class Family:
    """All children of this process, `Watched` as one worker, which is healthy if all of them are."""

    def __init__(self) -> None:
        self.children: list[ChildProcess] = []
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)

    async def start(self) -> None:
        """Start the first, then the others, so that only one child reports a fault in settings or topics.

        Raises ConnectionError if a child ends.
        """
        first, *others = self.children
        await first.start()
        await asyncio.gather(*(child.start() for child in others))

    async def stalled(self) -> list[str]:
        """See `Watched`. A child may take its time to start."""
        return await _reasons([child for child in self.children if child.started], LIVE)

    async def waiting(self) -> list[str]:
        """See `Watched`."""
        if not self.children or not all(child.started for child in self.children):
            return ["starting"]
        return await _reasons(self.children, READY)

    async def registry(self) -> CollectorRegistry:
        """See `Watched`. A child that does not answer is left out; `stalled` reports it."""
        running = [child for child in self.children if child.started]
        answers = await asyncio.gather(*(child.asked(METRICS) for child in running), return_exceptions=True)
        pages = {child.name: answer for child, answer in zip(running, answers, strict=True) if isinstance(answer, list)}
        registry = CollectorRegistry()
        registry.register(Merged({**pages, PARENT: page(self._registry)}))
        return registry


async def _reasons(children: list[ChildProcess], question: str) -> list[str]:
    return list(chain.from_iterable(await asyncio.gather(*(child.reasons(question) for child in children))))


class ChildProcess:
    """A child process. Its answers come in the order of the questions."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.started = False
        self._process = process
        self._told_to_stop = False
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._reading = asyncio.ensure_future(self._read())
        self.ended: asyncio.Future[int] = asyncio.ensure_future(process.wait())

    @classmethod
    async def of(cls, part: Part) -> ChildProcess:
        """Run this program again, with the roles of a part. It waits for `start`."""
        program = [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv[1:])]]
        roles = ",".join(role.name for role in part.roles)
        command = [*program, "worker", "--roles", roles, "--child", part.name]
        return cls(part.name, await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE))

    async def start(self) -> None:
        """Have it start its roles, and return once they have started. Raises ConnectionError if it ends before."""
        await self._put(START)
        self.started = True

    async def asked(self, question: str) -> Any:
        """Return its answer. Raises TimeoutError, or ConnectionError if it has ended."""
        return await asyncio.wait_for(self._put(question), ANSWER_TIMEOUT)

    async def reasons(self, question: str) -> list[str]:
        """Return the reasons that the child answers, under its name; that it does not answer is a reason, too."""
        try:
            return [f"process {self.name}: {reason}" for reason in await self.asked(question)]
        except (TimeoutError, ConnectionError):
            return [f"process {self.name} does not answer"]

    def _put(self, question: str) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._reading.done() or self._process.stdin is None:
            answer.set_exception(ConnectionError(f"{self.name} has ended"))
        else:
            self._waiting.append(answer)
            self._process.stdin.write(f"{question}\n".encode())
        return answer

    async def _read(self) -> None:
        answers = self._process.stdout
        try:
            while answers is not None:
                size = int.from_bytes(await answers.readexactly(LENGTH_BYTES), "big")
                answer = orjson.loads(await answers.readexactly(size))
                waiting = self._waiting.popleft()
                if not waiting.done():  # the caller may have timed out
                    waiting.set_result(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(ConnectionError(f"{self.name} has ended"))

    async def stop(self, within: float) -> int:
        """Stop it, unless it has ended, and return its exit status. It is killed after `within` seconds."""
        if not self.ended.done():
            self._told_to_stop = True
            self._process.terminate()
            try:
                await asyncio.wait_for(asyncio.shield(self.ended), within)
            except TimeoutError:
                self._process.kill()
                await self.ended
        await asyncio.wait([self._reading])
        return self.status

    @property
    def status(self) -> int:
        """The exit status after its end, as in a shell; 0 if it was stopped before it handled signals."""
        code = self.ended.result()
        if self._told_to_stop and code == -signal.SIGTERM:
            return 0
        return code if code >= 0 else BY_SIGNAL - code
