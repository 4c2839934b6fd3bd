"""One exchange with an upstream: the request, and its answer to the client as it comes, or why it was stopped."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import aiohttp
from multidict import CIMultiDict
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Send
from yarl import URL

from pipeline.gateway.live.event_stream import gone
from pipeline.gateway.problems import Problem
from pipeline.gateway.proxy.client import Followed, reason, session
from pipeline.gateway.proxy.passed_headers import Headers, downward
from pipeline.gateway.proxy.upstreams import Upstream
from pipeline.observability import metrics as m
from turnmill.capture import refusal
from turnmill.control.stopping import RunStopped, stopping


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to an upstream. `read`: set once the client's body is read; then only its disconnect can follow."""

    upstream: Upstream
    method: str
    url: str
    headers: Headers
    body: bytes | AsyncIterator[bytes] | None
    read: asyncio.Event


class Passing:
    """Passes on the body of one answer. `size`: bytes passed so far."""

    def __init__(self, body: aiohttp.StreamReader, followed: Followed, send: Send, idle: float) -> None:
        self._body = body
        self._followed = followed
        self._send = send
        self._idle = idle
        self._newest = b""
        self.size = 0

    async def piece(self) -> bool:
        """Pass the next piece on; return False at the end. Raises TimeoutError, and aiohttp's errors."""
        async with asyncio.timeout(self._idle):
            chunk = await self._body.readany()
        if not chunk:
            return False
        self._followed.data(chunk)
        self.size += len(chunk)
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        self._newest = (self._newest + chunk[-4:])[-4:]
        return True

    async def stopped(self, why: str, headers: Mapping[str, str]) -> None:
        """Send the reason why the answer ends here; if its wire has no form for this, the answer breaks off."""
        last = refusal.at_end(self._followed.dialect, why, headers, self._newest)
        if last is not None:
            await self._send({"type": "http.response.body", "body": last})


class Exchanges:
    """Exchanges over a pool of connections to all upstreams.

    `first_byte`: seconds until an answer must begin; `idle`: between two of its bytes.
    """

    def __init__(self, first_byte: float, idle: float, metrics: m.Metrics) -> None:
        self._first_byte = first_byte
        self._idle = idle
        self._metrics = metrics
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            await self._session.close()

    async def pass_on(self, going: Outgoing, followed: Followed, receive: Receive, send: Send) -> None:
        """Exchange request and answer. If the client disconnects, close the upstream's connection, too."""
        passing = asyncio.create_task(self._exchange(going, followed, send))
        leaving = asyncio.create_task(left(receive, going.read))
        try:
            await asyncio.wait((passing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not passing.done():
                followed.cancelled()
                passing.cancel()
        try:
            outcome = await passing
        except asyncio.CancelledError:
            outcome = "cancelled"
        except Problem:
            self._metrics.add(m.PROXIED, upstream=going.upstream.name, outcome="failed")
            raise
        self._metrics.add(m.PROXIED, upstream=going.upstream.name, outcome=outcome)

    async def _exchange(self, going: Outgoing, followed: Followed, send: Send) -> str:
        """Send the request, pass the answer on, and return the outcome. Raises Problem if there is no answer at all."""
        heard = stopping(followed.stop)
        try:
            answer = await heard.during(partial(self._asked, going, followed))
        except RunStopped as stopped:
            followed.stopped()
            headers = [(name.encode(), value.encode()) for name, value in refusal.HEADERS.items()]
            await send({"type": "http.response.start", "status": refusal.STATUS, "headers": headers})
            await send({"type": "http.response.body", "body": refusal.whole(followed.dialect, str(stopped))})
            return "stopped"
        names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.raw_headers}
        passing = Passing(answer.content, followed, send, self._idle)
        try:
            followed.answered(answer.status, names)
            await send(
                {"type": "http.response.start", "status": answer.status, "headers": downward(answer.raw_headers)}
            )
            try:
                while await heard.during(passing.piece):
                    continue
            except RunStopped as stopped:
                answer.close()
                followed.stopped()
                await passing.stopped(str(stopped), names)
                return "stopped"
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                # The client sees the same as without the proxy: an unfinished answer, and a closed connection.
                followed.failed(reason(error))
                return "broken"
            finally:
                self._metrics.add(m.PROXIED_BYTES, passing.size, upstream=going.upstream.name)
            followed.finished()
            await send({"type": "http.response.body", "body": b""})
            return f"{answer.status // 100}xx"
        finally:
            if answer.content.at_eof():
                answer.release()
            else:
                answer.close()

    async def _asked(self, going: Outgoing, followed: Followed) -> aiohttp.ClientResponse:
        """Return the head of the answer. Raises Problem."""
        if self._session is None:
            self._session = session()
        within = self._first_byte
        try:
            async with asyncio.timeout(within):
                return await self._session.request(
                    going.method,
                    URL(going.url, encoded=True),
                    headers=CIMultiDict(going.headers),
                    data=going.body,
                    allow_redirects=False,
                )
        except aiohttp.ConnectionTimeoutError as error:
            kind, why = "upstream-failed", reason(error)
        except TimeoutError:
            kind, why = "upstream-silent", f"it did not begin to answer within {within:g} s"
        except (Problem, ClientDisconnect):  # raised by the body that is passed on as it comes
            followed.cancelled()
            raise
        except (aiohttp.ClientError, OSError) as error:
            for cause in (error.__cause__, error.__context__):
                if isinstance(cause, Problem | ClientDisconnect):
                    raise cause from None
            kind, why = "upstream-failed", reason(error)
        followed.failed(why)
        raise Problem(kind, f"{going.upstream.name}: {why}")


async def left(receive: Receive, read: asyncio.Event) -> None:
    """Return once the client has disconnected."""
    await read.wait()
    with suppress(ClientDisconnect):
        await gone(receive)
