"""An event loop in which time passes only when nothing is left to be done, and processes that can be killed.

The loop is asyncio's own, so tasks, futures and locks are the real ones; only its clock and its wait are replaced. What
belongs to a process (its tasks, their timers and callbacks) runs in a context that names it. A killed process runs no
further step: no `finally`, no answer to its cancellation, as after `kill -9`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from types import SimpleNamespace
from typing import Any, Final

START: Final = 1_768_928_342.0  # epoch seconds at which each schedule begins
LATE: Final = (
    1e-6  # seconds by which each timer is late, as on every machine: a sum of floats may fall short of its aim
)
BUSY: Final = 20_000  # steps without any time passing, after which something spins


class Spins(AssertionError):
    """Something goes on and on without a pause."""


class Stuck(AssertionError):
    """Everything waits, and for nothing."""


class Process:
    """What runs together and dies together. `fuse`: after so many further steps it is killed, None: never.

    `skew`: seconds by which its wall clock is wrong.
    """

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.alive = True
        self.fuse: int | None = None
        self.skew = 0.0
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)
        self.at_death: list[Callable[[], None]] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.crashed: list[asyncio.Task[Any]] = []  # of an error that nobody has looked at for a while
        self._failed: set[asyncio.Task[Any]] = set()
        self.silent_since: float | None = None  # for as long as it is stopped, or dead
        self._held: list[Step] | None = None  # of a stopped process

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in it."""
        return self.context.copy().run(self.loop.create_task, work)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Called for each of its tasks."""
        self.tasks.append(task)

    def kill(self) -> None:
        """Let no further step of it run."""
        if self.alive:
            self.alive = False
            self._held = None
            self._falls_silent()
            for told in self.at_death:
                told()

    def stop(self) -> None:
        """As SIGSTOP: what it has to do waits."""
        self._held = [] if self._held is None else self._held
        self._falls_silent()

    def go_on(self) -> None:
        """As SIGCONT."""
        held, self._held = self._held or [], None
        if self.alive:
            self.silent_since = None
        self.loop.requeue(held)

    def _falls_silent(self) -> None:
        self.silent_since = self.loop.now if self.silent_since is None else self.silent_since

    def look(self) -> None:
        """Called now and then: note the tasks whose errors nobody has looked at since the last time."""
        before, self._failed = self._failed, set()
        if self.alive and self._held is None:
            self.tasks = [task for task in self.tasks if not task.done() or task._log_traceback]
            self._failed = {task for task in self.tasks if task.done()}
            self.crashed += [task for task in self.tasks if task in before and task not in self.crashed]

    def may_run(self, step: Step) -> bool:
        """Whether it takes its next step now."""
        if not self.alive:
            return False
        if self._held is not None:
            self._held.append(step)
            return False
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.loop.killed(self)
                self.kill()
                return False
        return True

    def bury(self) -> None:
        """Close what it has left behind, once the schedule is over."""
        self.alive = False
        for task in self.tasks:
            task._log_destroy_pending = False
            if not task.done():
                with suppress(Exception):
                    task.get_coro().close()


CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)


class SimulatedLoop(asyncio.BaseEventLoop):
    """See above. `killed` is told of each process whose fuse has burnt down."""

    def __init__(self, killed: Callable[[Process], None] = lambda _: None) -> None:
        super().__init__()
        self.now = 0.0
        self.killed = killed
        self._busy = 0
        self._timers: list[tuple[float, int, Step]] = []  # the second orders those of one time
        self._numbers = itertools.count()
        self.set_task_factory(_task)
        self.set_exception_handler(lambda _, context: None)  # the invariants look at tasks themselves

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        step = Step(callback, args, copy_context() if context is None else context)
        self._ready.append(step)
        return step

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        step = Step(callback, args, copy_context() if context is None else context)
        heapq.heappush(self._timers, (when, next(self._numbers), step))
        return step

    def later_outside(self, delay: float, callback: Callable[..., None], *args: Any) -> None:
        """As `call_later`, of no process: it comes even if the process that has asked for it is dead."""
        outside = copy_context()
        outside.run(CURRENT.set, None)
        self.call_later(delay, callback, *args, context=outside)

    def requeue(self, steps: list[Step]) -> None:
        """Run these next."""
        self._ready.extend(steps)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """At once: threads would run in an order of their own."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def _write_to_self(self) -> None:
        """There is no other thread."""

    def _process_events(self, event_list: Any) -> None:
        """There are no sockets."""

    def _run_once(self) -> None:
        """Until somebody stops the loop: the steps that are ready, in their order, and then the next of the timers."""
        ready = self._ready
        while not self._stopping:
            if not ready:
                self._wait()
            step = ready.popleft()
            if step._cancelled:
                continue
            context = step._context
            process = context.get(CURRENT)
            if process is None or process.may_run(step):
                context.run(step._callback, *step._args)
            self._busy += 1
            if self._busy > BUSY:
                name = process.name if process is not None else "the world"
                raise Spins(f"{BUSY} steps at {self.now:.3f} s, and no end: {name}, {step!r:.200}")

    def _wait(self) -> None:
        """Let time pass until the next timer."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise Stuck("nothing will ever happen again")
        if timers[0][0] > self.now:
            self.now, self._busy = timers[0][0] + LATE, 0
        while timers and timers[0][0] <= self.now:
            self._ready.append(heapq.heappop(timers)[2])


class Step(asyncio.TimerHandle):
    """What runs next, or later: a handle of asyncio's without what only debugging needs."""

    __slots__ = ()
    _source_traceback = _repr = None

    def __init__(self, callback: Any, args: tuple[Any, ...], context: Context) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True


def _task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **options)
    process = CURRENT.get()
    if process is not None:
        process.adopt(task)
    return task


def clock(loop: SimulatedLoop) -> Any:
    """What stands in for the module `time`."""

    def wall() -> float:
        process = CURRENT.get()
        return START + loop.now + (process.skew if process is not None else 0.0)

    return SimpleNamespace(time=wall, time_ns=lambda: int(wall() * 1e9), monotonic=loop.time, perf_counter=loop.time)
