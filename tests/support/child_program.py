"""A child of a parent, for tests: it has no roles, and does what its first argument says."""

import asyncio
import os
import signal
import sys
import time

from prometheus_client import CollectorRegistry

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.worker.processes.child import Child


class Shown:
    """A `Watched`; its number is what it says of itself."""

    def __init__(self, number: int) -> None:
        self.metrics = Metrics()
        self.metrics.add(m.COMMITS, number)
        self.metrics.set(m.LAG, number, role="assemble", topic="t", partition=str(number))

    async def stalled(self) -> list[str]:
        return []

    async def waiting(self) -> list[str]:
        return ["the store does not answer"] if what == "waits" else []

    async def registry(self) -> CollectorRegistry:
        return self.metrics.registry


async def main(number: int) -> int:
    stop = asyncio.Event()
    shown = Shown(number)
    loop = asyncio.get_running_loop()
    if what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    child = Child(shown, shown.metrics.registry, stop.set)
    await child.start()
    if what == "fails":
        return 4
    print("what is printed is no answer")  # noqa: T201  # that is tested
    child.started()
    if what == "hangs":
        time.sleep(60)  # noqa: ASYNC251  # the event loop is to stand still
    await stop.wait()
    return 75 if what == "unclean" else 0


if __name__ == "__main__":
    what = sys.argv[1]
    status = asyncio.run(main(int(sys.argv[2])))
    sys.stderr.flush()
    os._exit(status)
