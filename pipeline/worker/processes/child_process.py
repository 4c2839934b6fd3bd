"""The parent's handle of a child process: starts, queries and stops it."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from typing import Any, Final

import orjson

from pipeline.worker.processes.child import LENGTH_BYTES, START
from pipeline.worker.processes.parts import Part

ANSWER_TIMEOUT: Final = 5.0  # seconds; a child's limit for its own event loop is shorter
BY_SIGNAL: Final = 128  # plus the signal's number: the exit status of a process ended by a signal


class ChildProcess:
    """One child. Its answers come in the order of the questions."""

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
        """Run this program again, with the roles of one part. It waits for `start`."""
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
