"""Take what a program's threads have queued, in the publisher's loop, and log our own failures there."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Final, Generic

from turnmill.capture.passing import Note, Passing, Subject

BATCH_INTERVAL: Final = 0.01  # seconds that the queue may fill, so that a stream does not wake the loop for each note


class QueueReader(Generic[Subject]):
    """Reads a queue from `start` to `stop`. `happened` takes one note after the other, and raises nothing."""

    def __init__(self, queue: Passing[Subject], happened: Callable[[Note[Subject]], Awaitable[None]]) -> None:
        self._queue = queue
        self._happened = happened
        self._busy = self._ending = False
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, name: str) -> None:
        """Start reading, in a task of this name in the running loop."""
        self._task = asyncio.create_task(self._work(), name=name)
        self._queue.wake_by(self._more)

    async def read(self) -> None:
        """Wait until everything that was queued is read."""
        while self._queue or self._busy:
            self._idle.clear()
            self._more.set()
            await self._idle.wait()

    async def read_last(self, within: float) -> bool:
        """Wait like `read`, for at most `within` seconds. Return False if something is left."""
        self._ending = True
        try:
            async with asyncio.timeout(within):
                await self.read()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            await asyncio.sleep(0 if self._ending else BATCH_INTERVAL)
            self._busy = bool(self._queue)
            self._queue.attend()
            while (note := self._queue.take()) is not None:
                await self._happened(note)
            self._busy = False
            self._idle.set()


class OwnFailures:
    """A log of failures in one part of the capture, each kind once: the program's log is not ours.

    Call it in the handler of the exception.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged: set[str] = set()

    def __call__(self, message: str) -> None:
        """Log the exception that is being handled, unless one of its type was logged with this message."""
        error = sys.exc_info()[1]
        kind = f"{message} {type(error).__name__}"
        if kind not in self._logged:
            self._logged.add(kind)
            self._log.error("%s; more of the kind are not logged", message, exc_info=error)
