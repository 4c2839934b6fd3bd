"""The parent of a worker's processes: it starts them, serves their health and metrics as one, and ends with them.

It processes no records itself. When one of its children ends, for any reason, it stops the others, and ends with the
worst of their exit statuses, as one process would, so that a supervisor restarts all of them. Records that were read,
and not committed, are read again then.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import click
from prometheus_client import CollectorRegistry, ProcessCollector

from pipeline.worker.processes.child import LIVE, METRICS, READY
from pipeline.worker.processes.child_process import BY_SIGNAL, ChildProcess
from pipeline.worker.processes.health import HealthServer
from pipeline.worker.processes.metric_pages import merged, page
from pipeline.worker.processes.parts import Part


async def run(host: str, port: int, parts: Sequence[Part], stop_within: float) -> int:
    """Run these parts until a signal comes, or one of them ends; return the exit status. `port` 0: a free one.

    Children that run for longer than `stop_within` seconds after they were told to stop are killed. Raises CallerError
    if the port is taken.
    """
    stop_asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_asked.set)
    family = Family()
    health = HealthServer(host, port, family)
    port = await health.start()
    stopping = asyncio.ensure_future(stop_asked.wait())
    try:
        family.children = [await ChildProcess.of(part) for part in parts]
        starting = asyncio.ensure_future(_start(family, parts, f"http://{host}:{port}"))
        ends: list[asyncio.Future[Any]] = [stopping, *(child.ended for child in family.children)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        for child in family.children:
            # A child that could not start has reported why.
            if child.ended.done() and (child.started or child.status > BY_SIGNAL):
                click.echo(f"turnmill: process {child.name} ended with status {child.status}", err=True)
    finally:
        stopping.cancel()
        statuses = await asyncio.gather(*(child.stop(stop_within) for child in family.children))
        await health.stop()
    return max(statuses)


async def _start(family: Family, parts: Sequence[Part], url: str) -> None:
    try:
        await family.start()
    except ConnectionError:  # it has ended, which `run` notices
        return
    names = ", ".join(dict.fromkeys(role.name for part in parts for role in part.roles))
    click.echo(f"turnmill: {names}; {len(parts)} processes; {url}", err=True)


PARENT: Final = "parent"  # the name of the parent's own process in metrics


class Family:
    """All children of this process, `Watched` as one worker, which is healthy if all of them are."""

    def __init__(self) -> None:
        self.children: list[ChildProcess] = []
        self._own = CollectorRegistry()
        ProcessCollector(registry=self._own)

    async def start(self) -> None:
        """Start the first, then the others, so that only one child reports a fault in settings or topics.

        Raises ConnectionError if a child ends.
        """
        first, *others = self.children
        await first.start()
        await asyncio.gather(*(child.start() for child in others))

    async def stalled(self) -> list[str]:
        """See `Watched`. A child may take its time to start."""
        running = [child for child in self.children if child.started]
        return await _reasons(running, LIVE)

    async def waiting(self) -> list[str]:
        """See `Watched`."""
        if not self.children or not all(child.started for child in self.children):
            return ["starting"]
        return await _reasons(self.children, READY)

    async def registry(self) -> CollectorRegistry:
        """See `Watched`. A child that does not answer is left out; `stalled` reports it."""
        running = [child for child in self.children if child.started]
        answers = await asyncio.gather(*(child.asked(METRICS) for child in running), return_exceptions=True)
        pages = {child.name: answer for child, answer in zip(running, answers, strict=True) if isinstance(answer, list)}
        return merged({**pages, PARENT: page(self._own)})


async def _reasons(children: list[ChildProcess], question: str) -> list[str]:
    return list(chain.from_iterable(await asyncio.gather(*(_reasons_of(child, question) for child in children))))


async def _reasons_of(child: ChildProcess, question: str) -> list[str]:
    try:
        return [f"process {child.name}: {reason}" for reason in await child.asked(question)]
    except (TimeoutError, ConnectionError):
        return [f"process {child.name} does not answer"]
