"""How the process of a worker holds memory: what its peaks took goes back to the system.

Batches are thousands of objects that live for milliseconds. Left alone, glibc keeps the pages of each peak, once for
each thread, and Python's collector looks through all of it for cycles that are not there.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from typing import Final

M_ARENA_MAX: Final = -8  # of <malloc.h>
GIVE_BACK_EVERY: Final = 10.0  # seconds


def one_heap() -> None:
    """Have glibc's threads share one heap: else each has its own, and each keeps what its own peak has taken."""
    try:
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    except (OSError, AttributeError, TypeError):  # another libc, which has its own ways
        return


async def give_back() -> None:
    """Return free pages in the middle of the heap, too, now and then; it takes a millisecond.

    By itself glibc gives back only what is free at the heap's end, and something is always in use there.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # as above
        return
    while True:
        await asyncio.sleep(GIVE_BACK_EVERY)
        trim(0)


def relax_collector() -> None:
    """Look for cycles less often, and not in what the start has made: else a sixth of the time goes there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
