"""How long an event loop is held by one callback."""

import asyncio
import time
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

TESTS: Final = Path(__file__).parents[1]


@dataclass
class LongestCallback:
    """The callback that computed longest, and for how many seconds of its thread's processor time."""

    seconds: float = 0.0
    callback: str = ""


@contextmanager
def longest_callback(*, of_tests: bool = True) -> Iterator[LongestCallback]:
    """-> the longest callback of asyncio's own loops, in any thread, during the block.

    `of_tests`: False leaves out what tests and their fixtures compute in coroutines of their own.
    """
    longest, run = LongestCallback(), Handle._run

    def timed(handle: Any) -> None:
        began = time.thread_time()
        run(handle)
        if (spent := time.thread_time() - began) > longest.seconds and (of_tests or not _is_of_tests(handle)):
            longest.seconds, longest.callback = spent, repr(getattr(handle._callback, "__self__", handle))

    with patch.object(Handle, "_run", timed):
        yield longest


def _is_of_tests(handle: Any) -> bool:
    task = getattr(handle._callback, "__self__", None)
    coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    # What sets a fixture up is a coroutine of the plugin that runs it.
    return code is not None and (
        Path(code.co_filename).is_relative_to(TESTS) or "pytest_asyncio" in Path(code.co_filename).parts
    )
