"""Publish the event streams of a web application as they pass: Starlette, FastAPI, any application of ASGI 3.

    app.add_middleware(PublishStreams, agent_id="weather")

The client comes first: each chunk is passed on unchanged before it is read here, and failures of publishing are logged
and don't affect the response.

ASGI: https://asgi.readthedocs.io/en/latest/specs/www.html
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import orjson

from turnmill.capture.refusal import stopped_end
from turnmill.control.stopping import RunStopped, Stopping
from turnmill.integrations.stream_request import Identify, RunInputs, Scope, StreamRequest, from_request, kept
from turnmill.publish.publisher import Publisher
from turnmill.publish.run import PublishedRun
from turnmill.wire.traceparent import current

BODY_BYTES: Final = 4 * 1024 * 1024  # a larger request body is not read

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)


class PublishStreams:
    """ASGI middleware: responses of `text/event-stream` are published, as runs of `dialect` and `agent_id`.

    `identify` returns the run of a stream from its request, or None if it is not to be published. It is called when the
    response starts, in the server's event loop. The default is `from_request`; for `ag-ui` it is a RunInputs. Without a
    `publisher`, the middleware opens one for the application's lifespan. Pass a publisher if the server runs no
    lifespan, as for an application that is mounted in another.
    """

    def __init__(
        self,
        app: Application,
        *,
        publisher: Publisher | None = None,
        agent_id: str = "agent",
        dialect: str = "vercel-ai",
        identify: Identify | None = None,
    ) -> None:
        self.app = app
        self.publisher = publisher
        self._is_ours, self._has_warned = publisher is None, False
        self.agent_id = agent_id
        self.dialect = dialect
        self.identify = identify or (RunInputs() if dialect == "ag-ui" else from_request)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] != "http":
            if scope["type"] != "lifespan" or not self._is_ours:
                await self.app(scope, receive, send)
                return
            await self._live(scope, receive, send)
            return
        exchange = _Exchange(self, scope, receive, send)
        try:
            await exchange.stopping.during(partial(self.app, scope, exchange.receive, exchange.send))
        except RunStopped as stopped:
            await exchange.stopped(str(stopped))
        except BaseException as error:
            await exchange.end("error" if isinstance(error, Exception) else "aborted")
            raise
        await exchange.end("aborted")  # unless it was complete

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application's lifespan with a publisher; failures of publishing don't affect its start and stop."""
        stack = AsyncExitStack()

        async def close() -> None:
            try:
                await stack.aclose()
            except Exception:
                log.exception("the end of some streams may be lost")

        async def closing(message: Message) -> None:
            """Publish the rest before the server is told of the end, since it then ends its process."""
            if message["type"].startswith(("lifespan.shutdown.", "lifespan.startup.failed")):
                await close()
            await send(message)

        try:
            self.publisher = await stack.enter_async_context(Publisher())
        except Exception:
            log.exception("streams are not published")
        try:
            await self.app(scope, receive, closing)
        finally:
            await close()

    def run(self, request: StreamRequest) -> PublishedRun | None:
        """Return the run of a stream that begins; None where the stream is not to be published."""
        if self.publisher is None:
            if not self._has_warned:
                log.error("streams are not published: give a publisher, as the application's lifespan has opened none")
            self._has_warned = True
            return None
        identity = self.identify(request)
        if identity is None:
            return None
        info = dict(identity.info)
        if request.body is not None:
            info.setdefault("request", request.body)
        return self.publisher.run(
            thread_id=identity.thread_id,
            agent_id=identity.agent_id or self.agent_id,
            dialect=identity.dialect or self.dialect,
            run_id=identity.run_id,
            tenant=identity.tenant,
            info=info,
            traceparent=current() or request.headers.get("traceparent"),
        )


class _Exchange:
    """One request and its response, as they pass."""

    def __init__(self, middleware: PublishStreams, scope: Scope, receive: Receive, send: Send) -> None:
        self._middleware = middleware
        self._scope = scope
        self._receive = receive
        self._send = send
        self._headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self._is_json = "json" in self._headers.get("content-type", "")
        self._body: list[bytes] = []
        self._body_size = 0
        self._run: PublishedRun | None = None
        self._client_gone = False
        self.stopping = Stopping()

    async def receive(self) -> Message:
        """Return a message of the client, unchanged."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._client_gone = True
        elif self._is_json and message["type"] == "http.request":
            self._body_size += len(message.get("body", b""))
            if self._body_size <= BODY_BYTES:
                self._body.append(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        """Pass a message of the application on to the client, unchanged, then publish it."""
        try:
            await self._send(message)
        except OSError:
            self._client_gone = True
            raise
        finally:
            await self._published(message)

    async def end(self, verdict: str) -> None:
        """End the run: the application has returned, or failed."""
        if self._run is not None:
            await self._try(self._run, self._run.end("disconnected" if self._client_gone else verdict))
            self._run = None

    async def stopped(self, why: str) -> None:
        """End the stream and the run: the application was cancelled, as the run was told to stop."""
        run, self._run = self._run, None
        if run is None:
            return
        await self._try(run, run.acknowledge())
        await self._try(run, run.end("aborted"))
        await self._send({"type": "http.response.body", "body": stopped_end(run.dialect, why)})

    async def _published(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if _is_event_stream(message):
                self._begin()
        elif self._run is not None and message["type"] == "http.response.body":
            if message.get("body"):
                await self._try(self._run, self._run.send_bytes(message["body"]))
            if self._run is not None and not message.get("more_body", False):
                await self._try(self._run, self._run.end("complete"))
                self._run = None

    def _begin(self) -> None:
        try:
            self._run = self._middleware.run(StreamRequest(self._scope, self._headers, self._json()))
        except Exception:  # no failure of publishing may break the stream
            log.exception("%s: the stream is not published", self._scope.get("path"))
        if self._run is not None:
            self._run.stopped.then(self.stopping.tell)
        self._body.clear()

    async def _try(self, run: PublishedRun, call: Awaitable[None]) -> None:
        try:
            await call
        except asyncio.CancelledError:
            raise
        except Exception:  # as above
            log.exception("%s: the rest of the stream is not published", self._scope.get("path"), extra=run.log_extra)
            self._run = None

    def _json(self) -> Any:
        if not self._body or self._body_size > BODY_BYTES:
            return None
        try:
            return kept(orjson.loads(b"".join(self._body)))
        except orjson.JSONDecodeError:
            return None


def _is_event_stream(start: Message) -> bool:
    headers = {name.lower(): value for name, value in start.get("headers", ())}
    if not headers.get(b"content-type", b"").lower().startswith(b"text/event-stream"):
        return False
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        log.warning("a compressed event stream can't be published: add the compressing middleware after this one")
        return False
    return True
