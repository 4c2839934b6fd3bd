"""The memory of a worker's or a gateway's process: returns memory of its peaks to the system.

Batches are thousands of objects that live for milliseconds. By default, glibc keeps the pages of each peak, once for
each thread, and Python's collector searches all objects for cycles that don't exist.
"""

import asyncio
import ctypes
import gc
from typing import Any, Final

M_ARENA_MAX: Final = -8  # of <malloc.h>
GIVE_BACK_INTERVAL: Final = 10.0  # seconds


def share_heap() -> None:
    """Have glibc's threads share one heap; otherwise each has its own, and each keeps the memory of its own peak."""
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(M_ARENA_MAX, 1)


async def give_back() -> None:
    """Return free pages to the system now and then, also from the middle of the heap; it takes a millisecond.

    By itself, glibc returns only free memory at the heap's end, where something is always in use.
    """
    trim = _of_glibc("malloc_trim")
    while trim is not None:
        await asyncio.sleep(GIVE_BACK_INTERVAL)
        trim(0)


def _of_glibc(name: str) -> Any:
    """Return a function of glibc; None if the C library is another one, which behaves differently."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None


def relax_collector(young: int = 50_000, middle: int = 20) -> None:
    """Collect cycles less often, and not among the objects of the start; otherwise this takes a sixth of the time.

    `young`: number of new objects after which these are collected, while everything waits; `middle`: number of such
    collections after which the objects that survived one are collected, too.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, 20)
