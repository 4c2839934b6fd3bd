"""Publish captured calls before the process exits, on every exit path that Python can observe.

On SIGTERM, Python exits without calling the functions of `atexit`; so do servers such as uvicorn, which send themselves
the same signal after they have stopped. Children of multiprocessing, and workers of Celery, don't call them either.
"""

import atexit
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import FrameType
from typing import Any, Final, NoReturn

PROGRAM: Final = "TURNMILL_RUN_PROGRAM"  # the variable with the process that `turnmill run` has become
NONE: Final = "no call of a model was seen: seen are those over httpx, httpx2, aiohttp, requests and botocore"
NAMES: Final = ("SIGTERM", "SIGHUP")  # some systems have the first alone
RUNTIME: Final = "turnmill.capture.runtime"  # not loaded here: most programs of `turnmill.auto` end without it


def before_exit(stop: Callable[[], None]) -> None:
    """Call `stop` when this process exits by itself, not by a signal."""
    atexit.register(stop)
    if "multiprocessing.util" in sys.modules:
        from multiprocessing.util import Finalize  # noqa: PLC0415  # for those who use it

        Finalize(None, stop, exitpriority=10)
    celery = sys.modules.get("celery.signals")
    if celery is not None:
        celery.worker_process_shutdown.connect(lambda **_: stop(), weak=False)


def listen() -> None:
    """Publish captured calls before a signal ends this process.

    Handlers of the program are not changed, and may replace ours at any time. Does nothing in other threads than the
    main one.
    """
    with suppress(ValueError):
        for name in NAMES:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, publish_and_die)


def tell() -> None:
    """Say in a line what became of the program's calls of models."""
    runtime = sys.modules.get(RUNTIME)
    summary = None if runtime is None else runtime.runtime().summary()
    if summary is None and os.environ.get(PROGRAM) == str(os.getpid()):
        summary = NONE
    if summary is not None:
        with suppress(OSError, ValueError):  # the program may have closed its standard error
            sys.stderr.write(f"turnmill: {summary}\n")


def follow_exec() -> None:
    """Publish captured calls before another program replaces this one: Python's `exec` doesn't call `atexit`."""

    def publishing(original: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
        @wraps(original)
        def execute(*args: Any) -> NoReturn:
            runtime = sys.modules.get(RUNTIME)
            if runtime is not None:
                runtime.flush()
            original(*args)

        return execute

    os.execv, os.execve = publishing(os.execv), publishing(os.execve)


def publish_and_die(number: int, frame: FrameType | None) -> None:
    """Publish, then handle the signal as Python does without a handler.

    If the program's handler calls this handler, which it has replaced, do nothing: without us, none was there to call.
    """
    if signal.getsignal(number) is not publish_and_die:
        return
    runtime = sys.modules.get(RUNTIME)
    if runtime is not None:
        runtime.runtime().stop()
    tell()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
