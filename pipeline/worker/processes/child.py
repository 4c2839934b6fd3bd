"""A child process of `turnmill worker`: it answers its parent's questions, and ends when its parent does.

Questions are lines of standard input; an answer is JSON on standard output, preceded by its length in 8 bytes. Input
ends when the parent is dead, however it died. A thread listens, so that a blocked event loop can be reported.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
from prometheus_client import CollectorRegistry

from pipeline.worker.processes.health import Probe, Watched, page

START: Final = "start"  # answered once it has started; no other question comes before
LIVE: Final = "livez"
READY: Final = "readyz"
METRICS: Final = "metrics"
LENGTH_BYTES: Final = 8
LOOP_TIMEOUT: Final = 3.0  # seconds for an answer of the event loop


class Child:
    """The child's end of the connection. `orphaned` is called in the event loop when the parent is dead."""

    def __init__(self, watched: Watched, registry: CollectorRegistry, orphaned: Callable[[], None]) -> None:
        self._probes = {LIVE: watched.stalled, READY: watched.waiting}
        self._registry = registry
        self._orphaned = orphaned
        self._loop = asyncio.get_running_loop()
        self._may_start = asyncio.Event()
        # Unbuffered, since a buffer has a lock for which Python's shutdown would wait.
        self._questions = os.fdopen(os.dup(0), "rb", buffering=0)
        self._answers = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)  # accidental prints must not be read as answers

    async def start(self) -> None:
        """Start listening; return when the parent says that the work may start."""
        threading.Thread(target=self._listen, name="parent", daemon=True).start()
        await self._may_start.wait()

    def started(self) -> None:
        """Tell the parent that the work has started."""
        self._reply([])

    async def stop(self) -> None:
        """Do nothing: the parent sees that the process ends."""

    def _listen(self) -> None:
        try:
            for line in self._questions:
                question = line.decode().strip()
                if question == START:
                    self._loop.call_soon_threadsafe(self._may_start.set)
                else:
                    self._reply(page(self._registry) if question == METRICS else self._reasons(self._probes[question]))
        except BrokenPipeError:  # the parent died while it was answered
            pass
        self._loop.call_soon_threadsafe(self._orphaned)

    def _reply(self, answer: Sequence[Any]) -> None:
        text = orjson.dumps(answer)
        rest = memoryview(len(text).to_bytes(LENGTH_BYTES, "big") + text)
        while rest:
            rest = rest[self._answers.write(rest) :]

    def _reasons(self, probe: Probe) -> list[str]:
        reasons = asyncio.run_coroutine_threadsafe(probe(), self._loop)
        try:
            return reasons.result(LOOP_TIMEOUT)
        except TimeoutError:
            reasons.cancel()
            return [f"its event loop has not answered for {LOOP_TIMEOUT:.0f} s"]
        except Exception as error:  # a failing probe must be answered, too
            return [f"the probe itself failed: {type(error).__name__}: {error}"]
