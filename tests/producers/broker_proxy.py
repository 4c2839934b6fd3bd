"""A proxy before a broker that notes each request, takes APIs out of what the broker offers, and slows down produce.

A broker of another make lacks an API, or answers a produce late, as those do that keep records in an object store.
No client gets around it: the broker has a listener of its own for each proxy, whose advertised address is the proxy's.
"""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from aiokafka.protocol.api import RequestStruct

from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.support.places import CACHE

HOST: Final = "127.0.0.1"
PRODUCE, FETCH, HEARTBEAT, API_VERSIONS = 0, 1, 12, 18
# As https://kafka.apache.org/protocol names them.
NAMES: Final = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch",
    10: "FindCoordinator", 11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup", 14: "SyncGroup", 15: "DescribeGroups",
    16: "ListGroups", 17: "SaslHandshake", 18: "ApiVersions", 19: "CreateTopics", 20: "DeleteTopics",
    21: "DeleteRecords", 22: "InitProducerId", 32: "DescribeConfigs", 33: "AlterConfigs", 36: "SaslAuthenticate",
    37: "CreatePartitions", 42: "DeleteGroups",
}  # fmt: skip


@dataclass(slots=True)
class BrokerProxy:
    """Listens on 127.0.0.1:`port` before the broker's listener `target`.

    `refused`: the keys of APIs that are taken out of the broker's answer to ApiVersions; `delay`: seconds that a
    produce takes at least. `asked`: (API, version) -> how often; `bodies`: the requests of each, of Produce and Fetch
    the first.
    """

    port: int
    target: int
    refused: frozenset[int] = frozenset()
    delay: float = 0.0
    asked: dict[tuple[int, int], int] = field(default_factory=dict)
    bodies: dict[tuple[int, int], set[bytes]] = field(default_factory=dict)
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            there, back = await asyncio.open_connection(HOST, self.target)
            waiting: dict[int, tuple[int, int, float]] = {}  # by correlation id: API, version, when it was asked
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_frames(reader, back, lambda frame: self._request(frame, waiting)))
                    tasks.create_task(_frames(there, writer, lambda frame: self._answer(frame, waiting)))
            finally:
                back.transport.abort()
        except* (OSError, asyncio.IncompleteReadError):
            pass  # one side has closed it
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _request(self, frame: bytes, waiting: dict[int, tuple[int, int, float]]) -> bytes:
        key, version, number = struct.unpack_from(">hhi", frame)
        waiting[number] = key, version, time.monotonic()
        self.asked[key, version] = self.asked.get((key, version), 0) + 1
        if key not in (PRODUCE, FETCH):
            self.bodies.setdefault((key, version), set()).add(frame)
        else:  # of these the first tells all
            self.bodies.setdefault((key, version), {frame})
        return frame

    async def _answer(self, frame: bytes, waiting: dict[int, tuple[int, int, float]]) -> bytes:
        (number,) = struct.unpack_from(">i", frame)
        key, version, at = waiting.pop(number)
        if key == PRODUCE:
            await asyncio.sleep(max(0.0, at + self.delay - time.monotonic()))
        if key == API_VERSIONS and self.refused:
            assert version < 3, "rows of later versions have tags"
            error, rows = struct.unpack_from(">hi", frame, 4)
            end = 10 + 6 * rows
            offers = [row for row in struct.iter_unpack(">hhh", frame[10:end]) if row[0] not in self.refused]
            kept = b"".join(struct.pack(">hhh", *row) for row in offers)
            return struct.pack(">ihi", number, error, len(offers)) + kept + frame[end:]
        return frame


async def _frames(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Callable[[bytes], Any]) -> None:
    while True:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        frame = await seen(await reader.readexactly(size))
        writer.write(struct.pack(">i", len(frame)) + frame)
        await writer.drain()


@asynccontextmanager
async def proxied(folder: Path, names: Sequence[str]) -> AsyncIterator[tuple[str, dict[str, BrokerProxy]]]:
    """Run a broker. -> its own address, and by name a proxy before a listener that is this name's alone."""
    direct, *ports = free_ports(1 + 2 * len(names))
    proxies = {name: BrokerProxy(ports[2 * n], ports[2 * n + 1]) for n, name in enumerate(names)}
    extra = {
        "listeners": ",".join(f"{name}://{HOST}:{proxy.target}" for name, proxy in proxies.items()),
        "advertised.listeners": ",".join(f"{name}://{proxy.address}" for name, proxy in proxies.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in proxies),
    }
    with local.running(Settings(home=folder, cache=CACHE, brokers=f"{HOST}:{direct}"), extra=extra) as cluster:
        async with AsyncExitStack() as stack:
            for proxy in proxies.values():
                await proxy.start()
                stack.push_async_callback(proxy.stop)
            yield cluster.bootstrap, proxies


def speaks(key: int) -> tuple[int, int]:
    """-> the first and the last version of an API that the client library knows."""
    versions = [cls.API_VERSION for cls in _structs() if key == cls.API_KEY]
    return min(versions), max(versions)


def decoded(key: int, version: int, frame: bytes) -> dict[str, Any]:
    """-> the fields of a request."""
    (cls,) = (cls for cls in _structs() if (key, version) == (cls.API_KEY, cls.API_VERSION))
    stream = BytesIO(frame)
    stream.seek(8)
    (length,) = struct.unpack(">h", stream.read(2))
    stream.seek(10 + max(length, 0) + (1 if cls.FLEXIBLE_VERSION else 0))  # the client's id; no tags
    return cls.decode(stream).to_object()


def _structs() -> list[type[RequestStruct]]:
    found = []
    left = [RequestStruct]
    while left:
        for cls in left.pop().__subclasses__():
            left.append(cls)
            if hasattr(cls, "API_KEY"):
                found.append(cls)
    return found
