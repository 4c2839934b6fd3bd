"""A child as its parent sees it: started, asked, stopped."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from typing import Any, Final

import orjson

from pipeline.worker.child import LENGTH, START
from pipeline.worker.parts import Part

ANSWER_WITHIN: Final = 5.0  # seconds; a child gives its own event loop less
BY_SIGNAL: Final = 128  # and the signal's number: the exit status of what a signal has ended


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
        """Run this same program, with the roles of one part. It waits for `start`."""
        program = [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv[1:])]]
        roles = ",".join(role.name for role in part.roles)
        command = [*program, "worker", "--roles", roles, "--child", part.name]
        return cls(part.name, await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE))

    async def start(self) -> None:
        """Return when its roles have started. Raises ConnectionError where it ends before."""
        await self._put(START)
        self.started = True

    async def asked(self, question: str) -> Any:
        """Return its answer. Raises TimeoutError, or ConnectionError where it has ended."""
        return await asyncio.wait_for(self._put(question), ANSWER_WITHIN)

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
                size = int.from_bytes(await answers.readexactly(LENGTH), "big")
                answer = orjson.loads(await answers.readexactly(size))
                waiting = self._waiting.popleft()
                if not waiting.done():  # the caller may have timed out
                    waiting.set_result(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(ConnectionError(f"{self.name} has ended"))

    async def stop(self, within: float) -> int:
        """Stop it, where it has not ended -> its exit status. It is killed after so many seconds."""
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
        """The exit status of one that has ended, as a shell gives it; 0 where it was stopped before it took signals."""
        code = self.ended.result()
        if self._told_to_stop and code == -signal.SIGTERM:
            return 0
        return code if code >= 0 else BY_SIGNAL - code
