"""Before a worker's own code: its wall clock is off by as many seconds as a file says. The monotonic clock is not."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

_file = Path(os.environ["CHAOS_CLOCK"])
_shift = [0.0]
_time, _time_ns = time.time, time.time_ns


def _watch() -> None:
    while True:
        with suppress(OSError, ValueError):
            _shift[0] = float(_file.read_text() or 0)
        time.sleep(0.2)


time.time = lambda: _time() + _shift[0]
time.time_ns = lambda: _time_ns() + int(_shift[0] * 1e9)
threading.Thread(target=_watch, daemon=True).start()
