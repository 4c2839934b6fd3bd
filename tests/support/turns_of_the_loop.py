"""Counts the turns of the event loop, to see whether others get any while something is done."""

import asyncio
from types import TracebackType
from typing import Self

from turnmill.ending import ended


class LoopTurns:
    """`number`: of turns so far, inside of `async with`."""

    number = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._count())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await ended(self._task)

    async def _count(self) -> None:
        while True:
            self.number += 1
            await asyncio.sleep(0)
