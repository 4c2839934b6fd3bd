"""Stopping a run from elsewhere: what a run was told, and how its program hears of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from functools import partial
from inspect import isawaitable
from typing import TypeVar

from turnmill.control_record import AFTER_TURN, Command
from turnmill.errors import TurnmillError

Item = TypeVar("Item")

log = logging.getLogger(__name__)


class RunStopped(TurnmillError):
    """A run was told to stop, and its stream ends here. `command_id`: the command; `by`: who gave it."""

    def __init__(self, command: Command) -> None:
        super().__init__(f"the run was stopped by {command.by}")
        self.command_id = command.id
        self.by = command.by


def counts(command: Command, before: Command | None) -> bool:
    """Return True for a run's first command, and for one to stop now behind one to stop after the turn."""
    return before is None or (before.mode == AFTER_TURN and command.mode != AFTER_TURN)


class Stopping:
    """`run.stopped`: false until the run is told to stop; may be awaited."""

    __slots__ = ("_event", "_then", "_waiting", "command")

    def __init__(self) -> None:
        self.command: Command | None = None
        self._event: asyncio.Event | None = None
        self._then: Callable[[Command], object] | None = None
        self._waiting: asyncio.Task[object] | None = None

    def __bool__(self) -> bool:
        """Return True once the run was told to stop."""
        return self.command is not None

    def __await__(self) -> Generator[object, None, Command]:
        """Return when the run is told to stop -> the command."""
        return self.wait().__await__()

    async def wait(self) -> Command:
        """Return when the run is told to stop -> the command."""
        if self._event is None:
            self._event = asyncio.Event()
        if self.command is None:
            await self._event.wait()
        assert self.command is not None  # it was told
        return self.command

    def then(self, told: Callable[[Command], object]) -> None:
        """Call this with the command to stop, in the run's loop: at once where the run was told already."""
        self._then = told
        if self.command is not None:
            told(self.command)

    def tell(self, command: Command) -> None:
        """Tell the run to stop, in its loop."""
        if not counts(command, self.command):
            return
        self.command = command
        if self._event is not None:
            self._event.set()
        if self._then is not None:
            self._then(command)
        if self._waiting is not None and command.mode != AFTER_TURN:
            self._waiting.cancel()

    async def each(self, items: AsyncIterator[Item]) -> AsyncGenerator[Item]:
        """Yield items until the run is told to stop now, also while none comes. Raises RunStopped then."""
        while True:
            try:
                item = await self.during(partial(anext, items))
            except StopAsyncIteration:
                return
            yield item

    async def during(self, step: Callable[[], Awaitable[Item]]) -> Item:
        """Return the result of a step. Raises RunStopped where the run is told to stop now, before or meanwhile."""
        self._raise()
        self._waiting = task = _task()
        try:
            item = await step()
        except (Exception, asyncio.CancelledError):  # some make an error, or an end, of a cancellation
            self._take_back(task)
            raise
        finally:
            self._waiting = None
        self._take_back(task)
        return item

    def _take_back(self, task: asyncio.Task[object] | None) -> None:
        """Raise RunStopped for a cancellation of ours, as asyncio.timeout does it: another one goes on."""
        if self.command is not None and self.command.mode != AFTER_TURN and task is not None and task.uncancel() == 0:
            raise RunStopped(self.command) from None

    def _raise(self) -> None:
        if self.command is not None and self.command.mode != AFTER_TURN:
            raise RunStopped(self.command)


async def closed(source: object) -> None:
    """Close a stream that was stopped, where it can be: else its connection stays until the stream is collected."""
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    try:
        closing = close() if callable(close) else None
        if isawaitable(closing):
            await closing
    except Exception:  # whatever it is, the run is stopped all the same
        log.debug("a stream that was stopped can't be closed", exc_info=True)


def _task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # another kind of loop: the step ends first
        return None
