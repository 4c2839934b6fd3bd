"""Event streams of a web application are published as they pass: Starlette, FastAPI, anything that speaks ASGI 3.

    publisher = Publisher()                           # opened in the application's lifespan
    app.add_middleware(PublishStreams, publisher=publisher, agent_id="weather")

The client comes first: each chunk is sent on, the same object, before it is read here, and whatever goes wrong with
publishing is logged and does not reach the response.

ASGI: https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import orjson

from threadmill.current_span import current
from threadmill.published_run import PublishedRun
from threadmill.publisher import Publisher

BODY_BYTES: Final = 4 * 1024 * 1024  # of a request that are looked at
REQUEST_BYTES: Final = 256 * 1024  # of a request that go into a run's first record

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The request that an event stream answers: ASGI scope, headers by lower-case name, body if it was small JSON."""

    scope: Scope
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The run that an event stream is; `info` as in RunInfo. `dialect` and `agent_id`: the middleware's, if None."""

    thread_id: str
    run_id: str | None = None
    agent_id: str | None = None
    dialect: str | None = None
    tenant: str | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


Identify = Callable[[StreamRequest], RunIdentity | None]


def from_request(request: StreamRequest) -> RunIdentity:
    """The thread is what the header X-Thread-Id names, or the body's `id` (as `useChat` sends it), or a new one.

    Both come from the client: an application with more than one user gives its own function, which checks them.
    """
    body = request.body if isinstance(request.body, dict) else {}
    named = (request.headers.get("x-thread-id"), body.get("thread_id"), body.get("threadId"), body.get("id"))
    thread_id = next((name for name in named if isinstance(name, str) and name), None)
    return RunIdentity(thread_id or str(uuid4()))


class PublishStreams:
    """ASGI middleware: responses of `text/event-stream` are published, as runs of `dialect` and `agent_id`.

    `identify` says which run a stream is, from its request; None: it is not published. It runs when the response
    starts, in the server's event loop.
    """

    def __init__(
        self,
        app: Application,
        *,
        publisher: Publisher,
        agent_id: str = "agent",
        dialect: str = "vercel-ai",
        identify: Identify = from_request,
    ) -> None:
        self.app = app
        self.publisher = publisher
        self.agent_id = agent_id
        self.dialect = dialect
        self.identify = identify

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(self, scope, receive, send)
        try:
            await self.app(scope, exchange.receive, exchange.send)
        except BaseException as error:
            await exchange.end("error" if isinstance(error, Exception) else "aborted")
            raise
        await exchange.end("aborted")  # unless it was complete

    def run(self, request: StreamRequest) -> PublishedRun | None:
        """-> the run of a stream that begins; None where the stream is not to be published."""
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
    """One request and its response, on their way through."""

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

    async def receive(self) -> Message:
        """A message of the client, unchanged."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._client_gone = True
        elif self._is_json and message["type"] == "http.request":
            self._body_size += len(message.get("body", b""))
            if self._body_size <= BODY_BYTES:
                self._body.append(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        """A message of the application: to the client, unchanged, then to the topic."""
        try:
            await self._send(message)
        except OSError:
            self._client_gone = True
            raise
        finally:
            await self._published(message)

    async def end(self, verdict: str) -> None:
        """The application has returned, or failed."""
        if self._run is not None:
            await self._try(self._run, self._run.end("disconnected" if self._client_gone else verdict))
            self._run = None

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
        data = b"".join(self._body)
        try:
            body = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        if len(data) <= REQUEST_BYTES:
            return body
        return _newest_messages(body)


def _is_event_stream(start: Message) -> bool:
    headers = {name.lower(): value for name, value in start.get("headers", ())}
    if not headers.get(b"content-type", b"").lower().startswith(b"text/event-stream"):
        return False
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        log.warning("a compressed event stream can't be published: add the compressing middleware after this one")
        return False
    return True


def _newest_messages(body: Any) -> Any:
    """The body with the messages from the assistant's last one on; None where that is too long, too."""
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list):
        return None
    answers = [n for n, m in enumerate(messages) if isinstance(m, dict) and m.get("role") == "assistant"]
    short = {**body, "messages": messages[answers[-1] :] if answers else messages}
    return short if len(orjson.dumps(short)) <= REQUEST_BYTES else None
