"""The memory of a worker's process: what its peaks took goes back to the system.

Batches are thousands of objects that live for milliseconds. Left alone, glibc keeps the pages of each peak, once for
each thread, and Python's collector looks through all of it for cycles that are not there.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from typing import Any, Final

M_ARENA_MAX: Final = -8  # of <malloc.h>
GIVE_BACK_EVERY: Final = 10.0  # seconds


def one_heap() -> None:
    """Have glibc's threads share one heap: else each has its own, and each keeps what its own peak has taken."""
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(M_ARENA_MAX, 1)


async def give_back() -> None:
    """Return free pages in the middle of the heap, too, now and then; it takes a millisecond.

    By itself glibc gives back only what is free at the heap's end, and something is always in use there.
    """
    trim = _of_glibc("malloc_trim")
    while trim is not None:
        await asyncio.sleep(GIVE_BACK_EVERY)
        trim(0)


def _of_glibc(name: str) -> Any:
    """Return a function of glibc; None where the C library is another one, which has its own ways."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None


def relax_collector(young: int = 50_000, middle: int = 20) -> None:
    """Look for cycles less often, and not in what the start has made: else a sixth of the time goes there.

    `young`: after so many new objects those are looked at, while everything waits, and after `middle` such looks those
    that outlived one.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, 20)
