"""Pass a command to stop from the publishing thread to the program's threads that make a call or run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from threading import Lock

from turnmill.control.record import AFTER_TURN, Command
from turnmill.control.stopping import RunStopped, Stopping, counts

log = logging.getLogger("turnmill.capture")


class Stop:
    """The command to stop that a call or run has received, and the action that follows it."""

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

    def tell(self, command: Command) -> None:
        """Tell it to stop. Never raises."""
        with self._lock:
            if not counts(command, self.command):
                return
            self.command, then = command, self._then
        if then is not None:
            _do(then, command)

    def then(self, do: Callable[[Command], object]) -> None:
        """Register a callback for the command, called in the thread that calls `tell`; at once if it has come already.

        It is kept while the call is open, so it must not refer to the answer, or an abandoned answer would stay alive.
        """
        with self._lock:
            self._then, command = do, self.command
        if command is not None:
            _do(do, command)

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


def stopping(stop: Stop | None) -> Stopping:
    """Return a `Stopping` for the running loop that receives the command of `stop`, if that is not None."""
    receiver = Stopping()
    if stop is not None:
        stop.in_loop(receiver.tell)
        if stop.command is not None:  # at once, not by the loop's next step
            receiver.tell(stop.command)
    return receiver


def _do(what: Callable[[Command], object], command: Command) -> None:
    try:
        what(command)
    except Exception:  # a closed loop, or changed internals of a library: the next step stops instead
        log.debug("a run could not be stopped at once", exc_info=True)
