"""The ways in which a process ends: what it has said is published before each that Python sees.

At a SIGTERM Python dies without a word to the functions of `atexit`, and so do servers such as uvicorn, which send
themselves the same signal once they have stopped. Children of multiprocessing, and workers of Celery, leave them out.
"""

from __future__ import annotations

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
    """Have `stop` called where this process ends by itself."""
    atexit.register(stop)
    if "multiprocessing.util" in sys.modules:
        from multiprocessing.util import Finalize  # noqa: PLC0415  # for those who use it

        Finalize(None, stop, exitpriority=10)
    celery = sys.modules.get("celery.signals")
    if celery is not None:
        celery.worker_process_shutdown.connect(lambda **_: stop(), weak=False)


def listen() -> None:
    """Publish captured calls before a signal ends this process.

    Handlers of the program are left alone, and may take the place of ours at any time. Does nothing in a thread other
    than the main one.
    """
    with suppress(ValueError):
        for name in NAMES:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, publish_and_die)


def publish_and_die(number: int, frame: FrameType | None) -> None:
    """Handle a signal as Python does without a handler, after publishing.

    A handler of the program's own may call the one that it replaced; then nothing is done, since there was none.
    """
    if signal.getsignal(number) is not publish_and_die:
        return
    runtime = sys.modules.get(RUNTIME)
    if runtime is not None:
        runtime.runtime().stop()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
