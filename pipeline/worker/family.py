"""The children of one parent, seen as one worker."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector

from pipeline.worker.child import LIVE, METRICS, READY
from pipeline.worker.child_process import ChildProcess
from pipeline.worker.metric_pages import merged, page

PARENT: Final = "parent"  # as its own metrics name it


class Family:
    """All children of this process; `Watched` as one worker: it is well when all of them are."""

    def __init__(self) -> None:
        self.children: list[ChildProcess] = []
        self._own = CollectorRegistry()
        ProcessCollector(registry=self._own)

    async def start(self) -> None:
        """Start the first, and the others once it runs, so that one child alone reports a fault in settings or topics.

        Raises ConnectionError where a child ends.
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
