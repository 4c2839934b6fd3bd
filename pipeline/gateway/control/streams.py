"""The streams by which publishers receive commands."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pipeline.policies.pools import COMMAND_STREAMS, QUEUED
from topics.thread_key import ThreadKey
from turnmill.control.record import ANSWER, BUDGET, STOP, Command
from turnmill.remembered import size_of
from turnmill.shares import Room, Shares
from turnmill.wire.envelope import encode

ERASED: Final = "erased"  # in place of who gave a command


@dataclass(slots=True, eq=False)
class _Stream:
    """`tenant` None: the commands of all. `waiting`: each with its bytes. `missed`: a command did not fit."""

    tenant: str | None
    waiting: asyncio.Queue[tuple[Command, int]] = field(default_factory=asyncio.Queue)
    missed: bool = False


class CommandStreams:
    """The open streams. `erased` returns the deleted ones of some threads."""

    def __init__(self, erased: Callable[[Sequence[ThreadKey]], Awaitable[set[ThreadKey]]]) -> None:
        self._erased = erased
        self._streams: set[_Stream] = set()
        self._listening = Shares()
        self._queued = Room(QUEUED.size)

    def has_room(self, tenant: str | None) -> bool:
        """Return True if a tenant may open another stream."""
        return self._listening.allows(tenant, 1, COMMAND_STREAMS.size)

    def offer(self, command: Command) -> None:
        """Hand a command to the streams of its tenant. One without room for it ends, and its reader returns for it."""
        size = size_of(command)
        for stream in self._streams:
            if stream.tenant in (None, command.tenant):
                if self._queued.take(stream.tenant, size):
                    stream.waiting.put_nowait((command, size))
                else:
                    stream.missed = True

    async def opened(
        self, tenant: str | None, silence: float, earlier: Sequence[Command]
    ) -> AsyncGenerator[bytes | None]:
        """Yield records of `earlier` commands, answers last, then of new ones; None after a silence (seconds)."""
        mine = _Stream(tenant)
        self._streams.add(mine)
        self._listening.add(tenant, 1)
        try:
            for command in sorted(earlier, key=lambda command: command.kind == ANSWER):
                if tenant in (None, command.tenant) and (told := await self._told(command)):
                    yield told
                    await asyncio.sleep(0)  # there may be thousands, and nothing else need wait for any of them
            while not (mine.missed and mine.waiting.empty()):
                try:
                    async with asyncio.timeout(silence):
                        command, size = await mine.waiting.get()
                except TimeoutError:
                    yield None
                else:
                    self._queued.give(tenant, size)
                    if told := await self._told(command):
                        yield told
                        await asyncio.sleep(0)
        finally:
            self._streams.discard(mine)
            self._listening.add(tenant, -1)
            while not mine.waiting.empty():
                self._queued.give(tenant, mine.waiting.get_nowait()[1])

    async def _told(self, command: Command) -> bytes:
        """Return a command's record. Of a deleted thread, only stops reach a run that goes on, without words."""
        key = ThreadKey.of(command.thread_id, command.tenant)
        if key not in await self._erased([key]):
            return encode(command.record)
        by = BUDGET if command.by == BUDGET else ERASED
        return encode({**command.record, "by": by}) if command.kind == STOP else b""
