"""A model's provider on loopback that talks until its connection ends, and remembers when it said each token.

The first part of the path names the talk: `/r1/v1/responses`. A request that asks for no stream is never answered. One
to the Responses API that offers the tool `weather` gets a call of it, and is talked to once that has its result. A talk
of `finishing` comes to a good end instead, which asks for another turn where the wire has a tool `weather`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from tests.support.scripted_upstream import WIRES
from tests.support.upstream import response_call

WORD: Final = "word "
EACH: Final = 0.01  # seconds between two tokens
CALL: Final = {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {}}}]}
GOES_ON: Final[dict[str, list[Any]]] = {  # how a talk ends whose model wants to be asked again
    "gemini": [{"candidates": [{"content": CALL, "finishReason": "STOP"}], "modelVersion": "m"}],
    "openai-responses": response_call("call_2", "weather", "{}")[1:],
}


@dataclass(slots=True)
class Talk:
    """One request: times of time.monotonic()."""

    sent: list[float] = field(default_factory=list)
    closed: float | None = None

    def after(self, at: float) -> int:
        """The tokens that were sent from then on."""
        return sum(one > at for one in self.sent)


class Provider:
    """`talks`: by name, those of one name in the order in which they came. `pieces`: an event is never whole."""

    def __init__(self) -> None:
        self.pieces = False
        self.talks: dict[str, list[Talk]] = {}
        self.finishing: set[str] = set()
        self.url = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Provider]:
        server = web.Server(self._answer, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "POST":  # Claude Code looks whether somebody is there
            return web.Response()
        name, talk = request.path.split("/")[1], Talk()
        body = await request.json()
        offers = request.path.endswith("/responses") and "'name': 'weather'" in str(body.get("tools"))
        if offers and "function_call_output" not in str(body):
            return await _calls(request)
        self.talks.setdefault(name, []).append(talk)
        try:
            if not (body.get("stream") or ":stream" in request.path):
                await asyncio.Event().wait()
            return await self._talk(request, name, talk)
        finally:
            talk.closed = time.monotonic()

    async def _talk(self, request: web.BaseRequest, name: str, talk: Talk) -> web.StreamResponse:
        wire, build = next(found for end, found in WIRES.items() if request.path.endswith(end))
        events = build((WORD,), stream=True)
        first = next(place for place, event in enumerate(events) if WORD in json.dumps(event))
        events[first].get("candidates", [{}])[0].pop("finishReason", None)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in events[:first]:
            await response.write(_sse(event))
        while name not in self.finishing:
            said = _sse(events[first])
            await response.write(said[:-10] if self.pieces else said)
            talk.sent.append(time.monotonic())
            await asyncio.sleep(EACH)
        for event in GOES_ON.get(wire) or events[first + 1 :]:
            await response.write(_sse(event))
        await response.write_eof()
        return response


async def _calls(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for event in response_call("call_1", "weather", "{}"):
        await response.write(_sse(event))
    await response.write_eof()
    return response


def _sse(event: Any) -> bytes:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()
