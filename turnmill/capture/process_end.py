"""Publish captured calls before the process exits, on every exit path that Python can observe.

On SIGTERM, Python exits without calling the functions of `atexit`; so do servers such as uvicorn, which send themselves
the same signal after they have stopped. Children of multiprocessing, and workers of Celery, don't call them either.
"""

import atexit
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

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


def publish_and_die(number: int, frame: FrameType | None) -> None:
    """Publish, then handle the signal as Python does without a handler.

    If the program's handler calls this handler, which it has replaced, do nothing: without us, none was there to call.
    """
    if signal.getsignal(number) is not publish_and_die:
        return
    runtime = sys.modules.get(RUNTIME)
    if runtime is not None:
        runtime.runtime().stop()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
