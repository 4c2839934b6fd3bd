"""The mock's HTTP server: answers requests at the paths of providers' APIs with recorded answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from pipeline.cli.mock.calls import Call, Reply
from pipeline.cli.mock.matching import Tape
from pipeline.cli.programs.proxy import read_body, served
from pipeline.dialects.asked_again import HISTORY
from pipeline.policies.local_callers import refusal
from topics import json_text
from topics.json_text import Fields
from turnmill.capture.providers import CHAT, GENERATE, MESSAGES, RESPONSES, dialect_of
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import loads

LABEL: Final = "Turnmill-Replay"  # recorded | rebuilt
NAMED: Final = frozenset({MESSAGES, RESPONSES})  # wires whose events also have their type outside the data
FINAL: Final = {"x-should-retry": "false"}  # so that SDKs don't retry


@dataclass(frozen=True, slots=True)
class Mock:
    """Answers requests. `speed`: a factor on the pace of recorded streams, None: no wait. `tell`: the console."""

    tape: Tape
    speed: float | None = None
    tell: Callable[[str], object] = lambda line: None

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[str]:
        """Serve during the block; yield the address."""
        async with served(web.Server(self._answered, access_log=None), port) as address:
            yield address

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        if (why := refusal(request.headers)) is not None:
            return _refused(CHAT, 403, why)
        # The AI SDK expects the version in the base URL, all others don't.
        dialect = MESSAGES if request.path.endswith("/messages") else dialect_of(request.path, HISTORY)
        if request.method == "HEAD":
            return web.Response()
        if request.method != "POST" or dialect is None:
            return _refused(CHAT, 404, f"{request.method} {request.path} is no call that a run is answered for")
        try:
            body = loads(await read_body(request))
        except InvalidRecord as error:
            return _refused(dialect, 400, f"the body is no JSON: {error.detail}")
        if not isinstance(body, dict):
            return _refused(dialect, 400, "the body is no JSON object")
        match = self.tape.match(dialect, body)
        for warning in match.warnings:
            self.tell(f"warning: {warning}")
        if match.call is None:
            self.tell(f"refused: {match.problem}")
            return _refused(dialect, 400, match.problem)
        streams = "streamGenerateContent" in request.path if dialect == GENERATE else body.get("stream") is True
        reply = match.call.stream if streams else match.call.whole
        self.tell(f"{_label(reply)}: {dialect}, run {match.call.run}")
        if reply.status != 200 or not streams:
            headers = {LABEL: _label(reply)}
            return web.json_response(reply.events[0][1], status=reply.status, headers=headers, dumps=json_text.dumps)
        as_array = dialect == GENERATE and request.query.get("alt") != "sse"
        return await self._streamed(request, match.call, reply, as_array=as_array)

    async def _streamed(
        self, request: web.BaseRequest, call: Call, reply: Reply, *, as_array: bool
    ) -> web.StreamResponse:
        kind = "application/json" if as_array else "text/event-stream"
        response = web.StreamResponse(headers={"Content-Type": kind, LABEL: _label(reply)})
        await response.prepare(request)
        begin = asyncio.get_running_loop().time()
        for number, (at, event) in enumerate(reply.events):
            if self.speed is not None and reply.recorded:
                await asyncio.sleep(begin + at / 1000 / self.speed - asyncio.get_running_loop().time())
            data = _element(event, first=number == 0) if as_array else sse(call.dialect, event)
            await response.write(data.encode())
        if reply.breaks:
            if request.transport is not None:
                request.transport.abort()
            return response
        if as_array:
            await response.write(b"]")
        await response.write_eof()
        return response


def sse(dialect: str, event: Any) -> str:
    """Return an event as a Server-Sent Event of its wire."""
    if event.get("event", event) is None and "data" in event:  # a value that is no object comes wrapped in one
        data = event["data"]
        return f"data: {data if isinstance(data, str) else json_text.dumps(data)}\n\n"
    name = f"event: {event['type']}\n" if dialect in NAMED and isinstance(event.get("type"), str) else ""
    return f"{name}data: {json_text.dumps(event)}\n\n"


def _element(event: Any, *, first: bool) -> str:
    """Return an event as a member of a JSON array, in which Gemini streams without `alt=sse`."""
    whole = event.get("event", event) is None and isinstance(event.get("data"), list)
    text = ",\n".join(map(json_text.dumps, event["data"])) if whole else json_text.dumps(event)
    return f"{'[' if first else ','}{text}\n"


def _label(reply: Reply) -> str:
    return "recorded" if reply.recorded else "rebuilt"


def _refused(dialect: str, status: int, problem: str) -> web.Response:
    """Return an error in the provider's own form."""
    message = f"turnmill mock: {problem}"
    if dialect == GENERATE:
        error: Fields = {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}
    else:
        about = {"type": "invalid_request_error", "code": "turnmill_mock", "message": message}
        error = {"type": "error", "error": about}
    return web.Response(body=json.dumps(error), status=status, content_type="application/json", headers=FINAL)
