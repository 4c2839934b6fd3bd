"""Waiting for what another process, thread or server does: as long as a busy machine may need, and no longer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

PATIENCE: Final = 180.0  # seconds; a wait that ends well ends long before
PAUSE: Final = 0.05  # seconds between two looks

Found = TypeVar("Found")


def wait_for(look: Callable[[], Found], failure: Callable[[], object] = str, within: float = PATIENCE) -> Found:
    """-> the first answer of `look` that is true. `failure` gives what is said where none comes."""
    deadline = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {within:.0f} s: {failure()}"
        time.sleep(PAUSE)
    return found


async def until(
    look: Callable[[], Awaitable[Found]], failure: Callable[[], object] = str, within: float = PATIENCE
) -> Found:
    """The same with a coroutine function."""
    deadline = time.monotonic() + within
    while not (found := await look()):
        assert time.monotonic() < deadline, f"not within {within:.0f} s: {failure()}"
        await asyncio.sleep(PAUSE)
    return found
