"""A proxy on this machine for a program: passes its calls of models on, unchanged, and captures them.

    http://127.0.0.1:PORT/TOKEN/https/api.openai.com/v1/responses

The token keeps other users of the machine out, since whoever knows it can reach any server, as the program can.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from pipeline.cli.programs.addresses import HEADER, IN_HEADER, LOCAL
from pipeline.gateway.proxy.client import NOT_FOLLOWED, Followed, reason, session
from pipeline.gateway.proxy.passed_headers import HOP, OWN_PREFIX, of_call
from turnmill.capture import refusal
from turnmill.capture.passing import CapturedCall
from turnmill.capture.providers import PROVIDERS, Known, Providers
from turnmill.capture.secrets import hidden
from turnmill.control.stopping import RunStopped, Stopping, stopping
from turnmill.limits import PROXIED_BYTES

ANTHROPIC: Final = PROVIDERS["anthropic"].hosts[0]
NOT_PASSED: Final = HOP | {"host", "content-length", "expect"}


class Begin(Protocol):
    """Begins the capture of a request; see Runtime.capture."""

    def __call__(self, known: Known, path: str, headers: dict[str, str], body: bytes) -> CapturedCall | None: ...


@dataclass(frozen=True, slots=True)
class Target:
    """The target server and path of a request; `host` includes the port, if it has a port."""

    scheme: str
    host: str
    path: str

    @property
    def url(self) -> URL:
        """The URL, with its encoding unchanged."""
        return URL(f"{self.scheme}://{self.host}{self.path}", encoded=True)


@asynccontextmanager
async def served(server: web.Server, port: int = 0) -> AsyncIterator[str]:
    """Serve this machine during the block; yield the address. `port` 0: a free one."""
    runner = web.ServerRunner(server, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOCAL, port).start()
        yield f"http://{LOCAL}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class ProgramProxy:
    """Passes on the requests of a program. `calls`: number of captured ones."""

    def __init__(self, begin: Begin, providers: Providers) -> None:
        self._begin = begin
        self._providers = providers
        self._token = secrets.token_urlsafe(16)
        self._session: aiohttp.ClientSession | None = None
        self.calls = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve on a free port during the block; yield the address."""
        server = web.Server(self._answered, handler_cancellation=True, access_log=None)
        async with session(trust_env=True) as self._session, served(server) as address:
            yield f"{address}/{self._token}"

    def target(self, raw_path: str, header: str = "") -> Target | None:
        """Return the target of a path; None if its token is wrong, or it names no server.

        `header`: the token of a program in whose URL it is not.
        """
        empty, token, scheme, host, *rest = [*raw_path.split("/", 4), "", "", ""][:5]
        token = header if token == IN_HEADER else token
        if empty or not secrets.compare_digest(token.encode(), self._token.encode()):
            return None
        if scheme not in ("http", "https") or not host:
            return None
        path = f"/{rest[0]}" if rest else "/"
        if host == ANTHROPIC and path.startswith("/messages"):
            path = f"/v1{path}"  # the AI SDK expects the version in the base URL, all others don't
        return Target(scheme, host, path)

    def known(self, method: str, target: Target) -> Known | None:
        """Return the provider and wire of a request; the provider of an unknown host is the host itself."""
        host, _, port = target.host.partition(":")
        path = unquote(target.path.partition("?")[0])
        return self._providers.known(method, host, int(port) if port.isdigit() else None, path)

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        target = self.target(request.raw_path, request.headers.get(HEADER, ""))
        if target is None:
            return _problem(404, "this address is for the program of one `turnmill run`, and names no server")
        if "websocket" in request.headers.get("upgrade", "").lower():
            return _problem(426, "WebSockets are not passed on: use the same API over HTTP")
        call: Followed = NOT_FOLLOWED
        known, held = self.known(request.method, target), b""
        if known is not None:
            held = await read_body(request)
            if len(held) <= PROXIED_BYTES:
                headers = of_call(request.raw_headers) | hidden(target.path.partition("?")[2])
                path = unquote(urlsplit(str(target.url)).path)
                call = self._begin(known, path, headers, held) or NOT_FOLLOWED
                self.calls += call is not NOT_FOLLOWED
        try:
            return await self._passed(request, target, held, call)
        except BaseException:
            call.cancelled()  # does nothing if the call has ended
            raise

    async def _passed(
        self, request: web.BaseRequest, target: Target, held: bytes, call: Followed
    ) -> web.StreamResponse:
        assert self._session is not None  # it serves
        options: dict[str, Any] = {"headers": _upward(request), "data": _body(request, held), "allow_redirects": False}
        send = partial(self._session.request, request.method, target.url, **options)
        heard = stopping(call.stop)
        try:
            answer = await heard.during(send)
        except RunStopped as stopped:
            call.stopped()
            body = refusal.whole(call.dialect, str(stopped))
            return web.Response(status=refusal.STATUS, headers=refusal.HEADERS, body=body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            why = reason(error)
            call.failed(why)
            return _problem(502, f"{target.host}: {why}")
        try:
            return await _returned(request, answer, call, heard)
        finally:
            if answer.content.at_eof():
                answer.release()
            else:
                answer.close()


async def _returned(
    request: web.BaseRequest, answer: aiohttp.ClientResponse, call: Followed, heard: Stopping
) -> web.StreamResponse:
    names = {name.lower(): value for name, value in answer.headers.items()}
    call.answered(answer.status, names)
    passed = [(name, value) for name, value in answer.headers.items() if name.lower() not in HOP]
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=CIMultiDict(passed))
    await response.prepare(request)
    newest = b""
    try:
        while chunk := await heard.during(answer.content.readany):
            call.data(chunk)
            await response.write(chunk)
            newest = (newest + chunk[-4:])[-4:]
    except RunStopped as stopped:
        answer.close()
        call.stopped()
        last = refusal.at_end(call.dialect, str(stopped), names, newest)
        if last is not None:
            await response.write(last)
            await response.write_eof()
        elif request.transport is not None:
            request.transport.abort()
        return response
    except aiohttp.ClientConnectionResetError:  # the program has gone
        raise
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        call.failed(reason(error))
        if request.transport is not None:  # as without the proxy, the program sees an unfinished answer
            request.transport.abort()
        return response
    call.finished()
    await response.write_eof()
    return response


async def read_body(request: web.BaseRequest) -> bytes:
    """Return a body of at most PROXIED_BYTES, or the beginning of a longer body."""
    body = bytearray()
    while len(body) <= PROXIED_BYTES and (chunk := await request.content.readany()):
        body += chunk
    return bytes(body)


async def _rest(request: web.BaseRequest, held: bytes) -> AsyncIterator[bytes]:
    yield held
    while chunk := await request.content.readany():
        yield chunk


def _body(request: web.BaseRequest, held: bytes) -> bytes | AsyncIterator[bytes] | None:
    if request.content.at_eof():
        return held or None
    return _rest(request, held) if held else request.content.iter_any()


def _upward(request: web.BaseRequest) -> CIMultiDict[str]:
    named = {name.strip().lower() for name in request.headers.get("connection", "").split(",")} | NOT_PASSED
    headers = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if name.lower() not in named and not name.lower().startswith(OWN_PREFIX)
    )
    if not request.content.at_eof() and "content-length" in request.headers:  # the body passes unchanged
        headers["Content-Length"] = request.headers["content-length"]
    return headers


def _problem(status: int, message: str) -> web.Response:
    body = {"error": {"type": "turnmill", "code": "turnmill", "message": f"turnmill run: {message}"}}
    return web.json_response(body, status=status)
