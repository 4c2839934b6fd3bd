"""Stop a run by a command: the command that it received, and how its program learns of it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from functools import partial
from inspect import isawaitable
from threading import Lock
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


class Stop:
    """The command to stop that a call or run has received, and the action that follows it. Any thread may use it."""

    __slots__ = ("_lock", "_then", "command")

    def __init__(self) -> None:
        self.command: Command | None = None
        self._then: Callable[[Command], object] | None = None
        self._lock = Lock()

    @property
    def error(self) -> RunStopped | None:
        """Return the exception that stops the program now; None if it may go on."""
        command = self.command
        return None if command is None or command.mode == AFTER_TURN else RunStopped(command)

    def tell_now(self, command: Command) -> None:
        """Tell it to stop, except after the turn, since the call of a model is part of a turn. Never raises."""
        if command.mode != AFTER_TURN:
            self.tell(command)

    def tell(self, command: Command) -> bool:
        """Tell it to stop. Never raises. Return True for a first command, and for "now" following "after the turn"."""
        with self._lock:
            if self.command is not None and (self.command.mode != AFTER_TURN or command.mode == AFTER_TURN):
                return False
            self.command, then = command, self._then
        if then is not None:
            self._call(then, command)
        return True

    def then(self, do: Callable[[Command], object]) -> None:
        """Register a callback for the command, called in the thread that calls `tell`; at once if it has come already.

        It is kept while the call is open, so it must not refer to the answer, or an abandoned answer would stay alive.
        """
        with self._lock:
            self._then, command = do, self.command
        if command is not None:
            self._call(do, command)

    def over(self) -> None:
        """Drop the callback, since another call may use the connection soon."""
        with self._lock:
            self._then = None

    def in_loop(self, do: Callable[[Command], object]) -> None:
        """Register a callback like `then`, called in the running loop; without asyncio's loop, do nothing."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self.then(lambda command: loop.call_soon_threadsafe(do, command))

    def _call(self, do: Callable[[Command], object], command: Command) -> None:
        try:
            do(command)
        except Exception:  # a closed loop, or changed internals of a library: the next step stops instead
            log.debug("a run could not be stopped at once", exc_info=True)


class Stopping(Stop):
    """`run.stopped`: false until the run is told to stop; may be awaited. It is told in the run's loop.

    Its callback is the program's, so that `tell` and `then` raise what the callback raises.
    """

    __slots__ = ("_event", "_waiting")

    def __init__(self) -> None:
        super().__init__()
        self._event: asyncio.Event | None = None
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

    def tell(self, command: Command) -> bool:
        """Tell the run to stop, as `Stop.tell`. Call it in the run's loop."""
        before = self.command
        try:
            return super().tell(command)
        finally:  # also where the callback has failed
            if self.command is not before and self._event is not None:
                self._event.set()
            if self.command is not before and self._waiting is not None and command.mode != AFTER_TURN:
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
        if (stopped := self.error) is not None:
            raise stopped
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
        if (stopped := self.error) is not None and task is not None and task.uncancel() == 0:
            raise stopped from None

    def _call(self, do: Callable[[Command], object], command: Command) -> None:
        do(command)


def stopping(stop: Stop | None) -> Stopping:
    """Return a `Stopping` for the running loop that receives the command of `stop`, if that is not None."""
    receiver = Stopping()
    if stop is not None:
        stop.in_loop(receiver.tell)
        if stop.command is not None:  # at once, not by the loop's next step
            receiver.tell(stop.command)
    return receiver


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
