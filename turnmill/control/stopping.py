"""Stop a run by a command: the command that it received, and how its program learns of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from functools import partial
from inspect import isawaitable
from typing import TypeVar

from turnmill.control.record import AFTER_TURN, Command
from turnmill.errors import TurnmillError

Item = TypeVar("Item")

log = logging.getLogger(__name__)


class RunStopped(TurnmillError):
    """A run was told to stop, and its stream ends here. `command_id`: the command; `by`: its author."""

    def __init__(self, command: Command) -> None:
        super().__init__(f"the run was stopped by {command.by}")
        self.command_id = command.id
        self.by = command.by


def counts(command: Command, before: Command | None) -> bool:
    """Return True for a run's first command to stop, and for "stop now" following "stop after the turn"."""
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
        """Wait until the run is told to stop. Return the command."""
        return self.wait().__await__()

    async def wait(self) -> Command:
        """Wait until the run is told to stop. Return the command."""
        if self._event is None:
            self._event = asyncio.Event()
        if self.command is None:
            await self._event.wait()
        assert self.command is not None  # `tell` sets it before the event
        return self.command

    def then(self, do: Callable[[Command], object]) -> None:
        """Register a callback for the command to stop, called in the run's loop; at once if it has come already."""
        self._then = do
        if self.command is not None:
            do(self.command)

    def tell(self, command: Command) -> None:
        """Tell the run to stop. Call it in the run's loop."""
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
        """Yield items until the run is told to stop now, even while waiting for an item. Raises RunStopped then."""
        while True:
            try:
                item = await self.during(partial(anext, items))
            except StopAsyncIteration:
                return
            yield item

    async def during(self, step: Callable[[], Awaitable[Item]]) -> Item:
        """Return the result of a step. Raises RunStopped if the run is told to stop now, before or during the step."""
        if self.command is not None and self.command.mode != AFTER_TURN:
            raise RunStopped(self.command)
        self._waiting = task = _task()
        try:
            item = await step()
        except (Exception, asyncio.CancelledError):  # some steps turn a cancellation into an error, or into their end
            self._take_back(task)
            raise
        finally:
            self._waiting = None
        self._take_back(task)
        return item

    def _take_back(self, task: asyncio.Task[object] | None) -> None:
        """Raise RunStopped if the cancellation was ours, as asyncio.timeout does; do nothing for any other."""
        if self.command is not None and self.command.mode != AFTER_TURN and task is not None and task.uncancel() == 0:
            raise RunStopped(self.command) from None


async def closed(source: object) -> None:
    """Close a stopped stream if possible: else its connection stays open until the stream is garbage-collected."""
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    try:
        closing = close() if callable(close) else None
        if isawaitable(closing):
            await closing
    except Exception:  # the run is stopped in any case
        log.debug("a stream that was stopped can't be closed", exc_info=True)


def _task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # not asyncio's loop: the step can't be cancelled, and the stop takes effect after it
        return None
