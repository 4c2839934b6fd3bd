"""A receiver of webhooks that answers as a script says, and keeps what came."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Answer = Callable[[dict[str, Any], int], Awaitable[int] | int]


@dataclass
class Receiver:
    """`answer`: (the event, how often it came before) -> the status. `came`: (headers, body), `taken`: bodies that were
    answered with 2xx.
    """

    answer: Answer = lambda event, before: 204
    url: str = ""
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    taken: list[dict[str, Any]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        name = request.headers["webhook-id"]
        before = sum(headers["webhook-id"] == name for headers, _ in self.came)
        self.came.append(({key.lower(): value for key, value in request.headers.items()}, body))
        found = self.answer(json.loads(body), before)
        status = found if isinstance(found, int) else await found
        if 200 <= status < 300:
            self.taken.append(json.loads(body))
        return web.Response(status=status, headers={"Location": self.url + "/elsewhere"} if status == 302 else {})


@asynccontextmanager
async def receiving(answer: Answer | None = None) -> AsyncIterator[Receiver]:
    one = Receiver(answer) if answer is not None else Receiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", one.handle)
    server = TestServer(app)
    await server.start_server()
    one.url = str(server.make_url("")).rstrip("/")
    try:
        yield one
    finally:
        await server.close()
