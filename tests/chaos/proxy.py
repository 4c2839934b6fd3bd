"""A TCP proxy whose wire can be cut, refused or slowed down while connections go through it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

CHUNK = 65_536


@dataclass(slots=True)
class Proxy:
    """Listens on 127.0.0.1:`port`; `connect` opens the other side.

    `cut`: nothing passes, and nobody is told, as when a cable is pulled. `refuse`: connections are closed at once.
    `delay`: seconds that each piece of data waits.
    """

    port: int
    host: str = "127.0.0.1"
    target: int = 0
    path: str | None = None  # a Unix socket instead of host:target
    cut: bool = False
    refuse: bool = False
    delay: float = 0.0
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.reset()

    def reset(self) -> None:
        """Break every connection."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if self.refuse:
                return
            while self.cut:
                await asyncio.sleep(0.1)
            if self.path is not None:
                there, back = await asyncio.open_unix_connection(self.path)
            else:
                there, back = await asyncio.open_connection(self.host, self.target)
            self._open.add(back)
            try:
                await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
            finally:
                self._open.discard(back)
                back.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            if self.delay:
                await asyncio.sleep(self.delay)
            while self.cut:
                await asyncio.sleep(0.1)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
