"""The bounded queue of captured calls and runs: any thread adds notes, the publisher's loop reads them."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from threading import RLock
from typing import Any, Final, Generic, NamedTuple, TypeVar

from turnmill.clock import now_ms
from turnmill.control.stopping import RunStopped, Stop
from turnmill.ending import in_time
from turnmill.pools import CAPTURES
from turnmill.remembered import Remembered

Subject = TypeVar("Subject")  # what notes are about: a call, a run

log = logging.getLogger("turnmill.capture")

BATCH_INTERVAL: Final = 0.01  # seconds that the queue may fill, so that a stream does not wake the loop for each note


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request to a model.

    `provider`: a name from PROVIDERS, or from a setting. `path`: without the query. `headers`: names in lower case;
    those that name the conversation are read, and none is published. `client`: identifies the client, so that equal
    requests of two clients are not taken for two attempts of one.
    """

    provider: str
    dialect: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    client: str = ""


class CapturedCall:
    """One call that is being captured. Its methods don't wait, and only `check` raises. Only its first end counts.

    `thread_id`, `run_id`: where it is published; empty until its request was read, a moment later. `dialect`: its wire.
    `stop`: receives a command to stop; None if no commands are received.
    """

    __slots__ = ("_lost", "_passing", "dialect", "ended", "run_id", "stop", "tenant", "thread_id")

    def __init__(
        self, passing: Passing[CapturedCall], tenant: str | None = None, dialect: str = "", stop: Stop | None = None
    ) -> None:
        self._passing = passing
        self.tenant = tenant
        self.dialect = dialect
        self.stop = stop
        self.ended = False
        self._lost = 0
        self.thread_id = ""
        self.run_id = ""

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Note status and headers of the answer; names of headers are in lower case."""
        if not self.ended:
            self._passing.put(self, "answered", (status, dict(headers)), 0, self.tenant)

    def data(self, chunk: bytes) -> None:
        """Note a piece of the answer's body, still encoded."""
        if self.ended or not chunk:
            return
        if self._lost or not self._passing.put(self, "data", (bytes(chunk),), len(chunk), self.tenant):
            self._lost += len(chunk)

    def finished(self) -> None:
        """Note that the answer's body is complete."""
        self._end("finished")

    def failed(self, error: BaseException | str) -> None:
        """Note that the connection failed, before the answer or within it."""
        self._end("failed", error if isinstance(error, str) else f"{type(error).__name__}: {error}")

    def cancelled(self) -> None:
        """Note that the program gave the call up."""
        self._end("cancelled")

    @property
    def stop_error(self) -> RunStopped | None:
        """The exception that stops the call now; None if it was not told to stop."""
        return None if self.stop is None else self.stop.error

    def check(self) -> None:
        """Raise the exception that stops the call now, if any."""
        if self.stop is not None and (stopped := self.stop.error) is not None:
            raise stopped

    def stopped(self) -> None:
        """Note that the call was stopped by command: its connection is closed, or will be next."""
        self._end("stopped")

    def _end(self, how: str, *value: str) -> None:
        if not self.ended:
            self.ended = True
            if self.stop is not None:
                self.stop.over()
            if self._lost:
                self._passing.put(self, "gap", (self._lost,), 0, self.tenant, always=True)
            self._passing.put(self, how, value, 0, self.tenant, always=True)


class Note(NamedTuple, Generic[Subject]):
    """One occurrence in a call or run, at epoch ms. `value`: what belongs to it. `size`: its bytes in the queue."""

    call: Subject
    at: int
    what: str
    value: tuple[Any, ...]
    size: int


class Passing(Generic[Subject]):
    """The queue of a process, of at most `room` bytes, of which each tenant has a share.

    A process of a tenant uses None as the tenant, which may use all of it, since nobody else needs room.

    `wake` is called when the first note comes into an idle queue.
    """

    def __init__(self, room: int) -> None:
        self.wake: Callable[[], None] | None = None
        self._lock = RLock()  # reentrant: garbage collection may end a call while a note is added
        self._notes: Remembered[int, Note[Subject]] = Remembered(CAPTURES, lambda note: note.size, room)
        self._numbers = count()
        self._is_shut = False
        self._woken = False

    def __len__(self) -> int:
        return len(self._notes)

    def wake_by(self, more: asyncio.Event) -> None:
        """Set this event of the running loop, now and whenever a note comes into an idle queue."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(more.set)
            except RuntimeError:  # the loop is closed: the process ends
                log.debug("the rest of what passes by is not published")

        self.wake = wake
        more.set()

    @property
    def size(self) -> int:
        """The number of bytes in the queue."""
        return self._notes.shares.total

    def put(
        self,
        call: Subject,
        what: str,
        value: tuple[Any, ...],
        size: int,
        tenant: str | None = None,
        *,
        always: bool = False,
    ) -> bool:
        """Add a note about a call or a run. Return False if there is no room; with `always`, it is added anyway."""
        note, number = Note(call, now_ms(), what, value, size), next(self._numbers)
        with self._lock:
            if self._is_shut or not (always or self._has_room(tenant, number, note)):
                return False
            self._notes.put(tenant, number, note)
            wake, self._woken = None if self._woken else self.wake, True
        if wake is not None:
            wake()
        return True

    def _has_room(self, tenant: str | None, number: int, note: Note[Subject]) -> bool:
        if tenant is None:
            return self._notes.has_bytes(number, note)
        return self._notes.fits(tenant, number, note)

    def shut(self) -> None:
        """Accept nothing more. Locks are replaced: after a fork, a thread that no longer exists may hold them."""
        self._lock = RLock()
        self._is_shut, self.wake = True, None
        self._notes = Remembered(CAPTURES, lambda note: note.size)

    def attend(self) -> None:
        """Note that the reader starts to take notes, so that notes added from now on wake it again."""
        with self._lock:
            self._woken = False

    def take(self) -> Note[Subject] | None:
        """Return the oldest note of a tenant, of each in turn; None where there is none."""
        with self._lock:
            return self._notes.first()


class QueueReader(Generic[Subject]):
    """Reads a queue of at most `room` bytes, from `start` to `stop`, in the publisher's loop."""

    def __init__(self, room: int) -> None:
        self._passing: Passing[Subject] = Passing(room)
        self._busy = self._ending = False
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, name: str) -> None:
        """Start reading, in a task of this name in the running loop."""
        self._task = asyncio.create_task(self._work(), name=name)
        self._passing.wake_by(self._more)

    async def read(self) -> None:
        """Wait until everything that was queued is read."""
        while self._passing or self._busy:
            self._idle.clear()
            self._more.set()
            await self._idle.wait()

    async def read_last(self, within: float) -> bool:
        """Wait like `read`, for at most `within` seconds. Return False if something is left."""
        self._ending = True
        return await in_time(self.read(), within)

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def shut(self) -> None:
        """Accept nothing more, since there is no event loop and will be none."""
        self._passing.shut()

    async def _happened(self, note: Note[Subject]) -> None:
        """Process a note; raises nothing."""
        raise NotImplementedError

    async def _work(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            await asyncio.sleep(0 if self._ending else BATCH_INTERVAL)
            self._busy = bool(self._passing)
            self._passing.attend()
            while (note := self._passing.take()) is not None:
                await self._happened(note)
            self._busy = False
            self._idle.set()


class OwnFailures:
    """Logs failures of a part of the capture, each kind once: the program's log is not ours."""

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
