"""How long an event loop is held by one callback."""

from __future__ import annotations

import time
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch


@dataclass
class LongestCallback:
    """The callback that computed longest, and for how many seconds of its thread's processor time."""

    seconds: float = 0.0
    callback: str = ""


@contextmanager
def longest_callback() -> Iterator[LongestCallback]:
    """-> the longest callback of asyncio's own loops, in any thread, during the block."""
    longest, run = LongestCallback(), Handle._run

    def timed(handle: Any) -> None:
        began = time.thread_time()
        run(handle)
        if (spent := time.thread_time() - began) > longest.seconds:
            longest.seconds, longest.callback = spent, repr(getattr(handle._callback, "__self__", handle))

    with patch.object(Handle, "_run", timed):
        yield longest
