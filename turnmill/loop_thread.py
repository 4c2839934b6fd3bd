"""An event loop in a separate thread, for callers without an event loop, or with another one."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """A daemon thread that runs an event loop: until `main` returns, or without it until `stop` is called.

    `executor`: where the loop runs blocking functions, by default in further threads.
    """

    def __init__(
        self, name: str, main: Coroutine[Any, Any, object] | None = None, executor: ThreadPoolExecutor | None = None
    ) -> None:
        self._loop = asyncio.new_event_loop()
        if executor is not None:
            self._loop.set_default_executor(executor)
        self._main = main
        self._thread = Thread(target=self._run, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # while the interpreter ends, no thread can start
            self._loop.close()
            if main is not None:
                main.close()
            raise

    def _run(self) -> None:
        try:
            if self._main is None:
                self._loop.run_forever()
            else:
                self._loop.run_until_complete(self._main)
        finally:
            self._loop.close()

    def is_alive(self) -> bool:
        """Return True while the loop runs; False also in a process that was forked from its process."""
        return self._thread.is_alive()

    def wait_for(self, call: Awaitable[Result], within: float | None = None) -> Result:
        """Return the result of an awaitable that is awaited in the loop. If the wait is interrupted, it is cancelled.

        Raises TimeoutError after `within` seconds, and RuntimeError if the loop has ended.
        """
        future = asyncio.run_coroutine_threadsafe(_awaited(call), self._loop)
        try:
            return future.result(within)
        except BaseException:
            future.cancel()  # does nothing if it is done; needed if Ctrl-C ends the wait
            raise

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function in the loop; do nothing if the loop has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def join(self, within: float | None = None) -> None:
        """Wait for the end of the thread, for at most `within` seconds."""
        self._thread.join(within)

    def stop(self) -> None:
        """End the loop, and wait for the end of its thread."""
        self.call_soon(self._loop.stop)
        self.join()


async def _awaited(call: Awaitable[Result]) -> Result:
    """Await in a coroutine, since `anext` of a generator returns an awaitable that is no coroutine."""
    return await call


def run_apart(call: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine that runs in a loop and a separate thread: the caller may have a loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, call).result()
