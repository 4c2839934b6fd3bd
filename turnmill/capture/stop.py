"""A call or run that its program's threads may be told to stop, by the thread that publishes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from threading import Lock

from turnmill.control_record import AFTER_TURN, Command
from turnmill.stopping import RunStopped, Stopping, counts

log = logging.getLogger("turnmill.capture")


class Stop:
    """The command to stop that one call or run was given, and what the program does about it."""

    __slots__ = ("_lock", "_then", "command")

    def __init__(self) -> None:
        self.command: Command | None = None
        self._then: Callable[[Command], object] | None = None
        self._lock = Lock()

    @property
    def error(self) -> RunStopped | None:
        """Return the exception that stops the program now; None: it goes on."""
        command = self.command
        return None if command is None or command.mode == AFTER_TURN else RunStopped(command)

    def tell_now(self, command: Command) -> None:
        """Tell it to stop, but for one that may end its turn: the call of a model is a part of one. Never raises."""
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
        """Call this with the command, in whichever thread tells it: at once where it was told already.

        It is kept for as long as the call is open, so it must not hold an answer that nobody else holds.
        """
        with self._lock:
            self._then, command = do, self.command
        if command is not None:
            _do(do, command)

    def over(self) -> None:
        """Do nothing any more: its connection may be another call's soon."""
        with self._lock:
            self._then = None

    def in_loop(self, do: Callable[[Command], object]) -> None:
        """As `then`, in the loop that runs; one that is not of asyncio calls nothing, and its next step is told."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self.then(lambda command: loop.call_soon_threadsafe(do, command))


def stopping(stop: Stop | None) -> Stopping:
    """Return what the loop that runs hears of a stop; None: nothing."""
    found = Stopping()
    if stop is not None:
        stop.in_loop(found.tell)
        if stop.command is not None:  # at once, before anything is sent
            found.tell(stop.command)
    return found


def _do(what: Callable[[Command], object], command: Command) -> None:
    try:
        what(command)
    except Exception:  # a loop that is closed, a library of other insides: the next step of the program is told
        log.debug("a run could not be stopped at once", exc_info=True)
