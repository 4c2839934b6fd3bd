"""Gateways on real sockets, which tests start, stop and start again; tokens, and readers of live streams."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from pipeline.gateway.access.principal import Scope
from pipeline.gateway.access.token_table import new_token
from pipeline.gateway.serving.app import create_app
from pipeline.gateway.serving.server import Server, listen, url_of
from pipeline.settings import Settings
from tests.support.waiting import PATIENCE

# Trusts nobody, as no gateway here speaks TLS: to read the authorities takes a tenth of a second for each client.
NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
ALL: tuple[Scope, ...] = ("publish", "feedback", "read", "control", "admin")


class Running:
    """One gateway, in this event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.app = create_app(settings)
        listening = listen(settings.gateway_host, settings.gateway_port)
        self.url = url_of(listening)
        self.server = Server(self.app)
        self._task = asyncio.create_task(self.server._serve([listening]))

    async def stop(self) -> None:
        self.server.stop()
        await self._task


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Running]:
    one = Running(settings)
    try:
        yield one
    finally:
        await one.stop()


@asynccontextmanager
async def client(url: str, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=PATIENCE, limits=limits, trust_env=False, verify=NOBODY
    ) as one:
        yield one


@dataclass
class Tokens:
    """A token for each tenant, and one that reaches all; `setting` lets them in."""

    acme: str = ""
    globex: str = ""
    operator: str = ""
    reader: str = ""
    sender: str = ""
    admin: str = ""
    setting: str = field(default="")

    def __post_init__(self) -> None:
        lines = []
        given = (
            ("acme", ALL, "acme"),
            ("globex", ALL, "globex"),
            ("operator", ALL, None),
            ("reader", ("read",), "acme"),
            ("sender", ("publish",), "acme"),
            ("admin", ("admin",), "acme"),
        )
        for name, scopes, tenant in given:
            secret, line = new_token(name, scopes, tenant)
            setattr(self, name, secret)
            lines.append(line.model_dump_json(exclude_none=True))
        self.setting = "\n".join(lines)


def sse(events: list[dict[str, Any]], *, done: bool = True) -> bytes:
    """Events as the AI SDK streams them."""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + (
        b"data: [DONE]\n\n" if done else b""
    )


def words(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"type": "text-delta", "id": "t", "delta": f"word {start + n} "} for n in range(count)]


def talk(count: int) -> list[dict[str, Any]]:
    """A whole run of so many words."""
    head = [{"type": "start"}, {"type": "start-step"}, {"type": "text-start", "id": "t"}]
    return [*head, *words(count), {"type": "text-end", "id": "t"}, {"type": "finish-step"}, {"type": "finish"}]


@dataclass(frozen=True, slots=True)
class Message:
    """One server-sent event."""

    id: str
    name: str
    data: str

    @property
    def seq(self) -> int:
        return int(json.loads(self.data)["seq"])


async def messages(response: httpx.Response) -> AsyncIterator[Message]:
    """As a browser's EventSource reads them: comments are passed over, an unfinished one is dropped."""
    found: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            found[name] = value
        elif not line:
            if "data" in found:
                yield Message(found.get("id", ""), found.get("event", "message"), found["data"])
            found = {}


async def replayed(http: httpx.AsyncClient, thread: str, **more: str) -> list[Message]:
    """All that is there of a thread."""
    query = {"follow": "false", **more}
    async with http.stream("GET", f"/v1/threads/{thread}/live", params=query) as response:
        assert response.status_code == 200, await response.aread()
        return [message async for message in messages(response)]
