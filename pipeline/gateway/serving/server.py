"""The app behind a socket: uvicorn, with limits on slow, large and numerous requests, and an orderly stop."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import httptools
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pipeline.gateway.live.following import Live
from pipeline.gateway.problems import KINDS, MEDIA_TYPE, body
from pipeline.gateway.state import Gateway
from pipeline.observability.logs import why_not_listening
from turnmill.errors import CallerError

KEEP_ALIVE: Final = 10.0  # seconds for which an idle connection stays open
DRAIN_TIMEOUT: Final = 5.0  # seconds for which the rest of a refused body is read, so that its sender sees the answer
STOP_TIMEOUT: Final = 10.0  # seconds that uploads have to finish at a stop
TAKE_TIMEOUT: Final = 60.0  # seconds within which a reader must take some of the waiting bytes
BACKLOG: Final = 4096  # as Linux allows: all agents of another gateway, which has just ended, may come at once


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds.

    uvicorn itself waits for ever: for the headers of a request, for the rest of a refused body, and for a reader to
    take its answer. llhttp bounds neither heads nor trailers, and takes a request for over that asks for an upgrade.
    """

    header_seconds: float
    header_bytes: int
    most: int

    _overdue: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None
    _held = 0  # bytes since the last that became a head or a part of a body: the parser may hold all of them
    _whole = True  # the newest request has come to its end
    _wishes: Sequence[tuple[bytes, bytes]] = ()  # for an upgrade, of a request that is read again

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._refuse_connection(
                "unavailable", "the gateway has all the connections that it takes", "Retry-After: 5\r\n"
            )
            return
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._held += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse_connection("bad-request", str(error.__context__ or error))
        else:
            if self._held > self.header_bytes:
                self._refuse_connection("headers-too-large", f"the headers may have {self.header_bytes:,} bytes")

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Read a request again without its wish for an upgrade, with which the parser skips its body.

        Java's client writes it into each request. The app is told, since some answers depend on it.
        """
        method, version = self.scope["method"].encode(), self.parser.get_http_version().encode()
        line = b"%s %s HTTP/%s\r\n" % (method, self.url, version)
        kept = [b"%s: %s\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        self._wishes = [header for header in self.headers if header[0] == b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"".join([line, *kept, b"\r\n", rest]))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._held, self._whole = 0, False
        if self._overdue is None:
            self._wait_for_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._overdue is not None:  # the head is due; behind it are trailers, which uvicorn would add to its headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._held = 0
        self.scope["method"] = self.parser.get_method().decode("ascii")
        hosts = sum(name == b"host" for name, _ in self.headers)
        if self.scope["method"] == "CONNECT" or (hosts != 1 and self.parser.get_http_version() == "1.1"):
            raise ValueError("a request is for this host, which it names once")
        if self.parser.should_upgrade():
            return
        self.headers += self._wishes
        self._wishes = ()
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._held = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._whole = True
        super().on_message_complete()
        if self.cycle.response_complete and self._overdue is None:  # the rest of a refused body: the next one is due
            self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._taken()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self._whole and not self.transport.is_closing():
            self.loop.call_later(DRAIN_TIMEOUT, self._close_unread, self.cycle)

    def _refuse_connection(self, kind: str, detail: str, more: str = "") -> None:
        """Send an error, unless another answer has begun, and close the connection."""
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            data, title = body(kind, detail), KINDS[kind]
            head = (
                f"HTTP/1.1 {title.status} {title.title}\r\nContent-Type: {MEDIA_TYPE}\r\n"
                f"Content-Length: {len(data)}\r\nConnection: close\r\n{more}\r\n"
            )
            self.transport.write(head.encode() + data)
        self.transport.close()

    def _wait_for_headers(self) -> None:
        self._overdue = self.loop.call_later(self.header_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _wait_for_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._untaken = self.loop.call_later(TAKE_TIMEOUT, self._look_at_reader, left)

    def _look_at_reader(self, left: int) -> None:
        if self.transport.get_write_buffer_size() < left:
            self._wait_for_reader()
        else:
            self.transport.abort()

    def _taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None

    def _close_unread(self, cycle: object) -> None:
        if self.cycle is cycle and not self._whole:
            self.transport.close()


class Server(uvicorn.Server):
    """One gateway process. At a stop, `stopping` is called first; then the endless streams are ended."""

    def __init__(self, app: FastAPI, stopping: Callable[[], None] = lambda: None) -> None:
        gateway: Gateway = app.state.gateway
        settings = gateway.settings
        largest = 2 * settings.gateway_header_bytes  # up to this size, the app answers
        bounds = {
            "header_seconds": settings.gateway_header_seconds,
            "header_bytes": largest,
            "most": settings.gateway_connections,
        }
        super().__init__(
            uvicorn.Config(
                app,
                http=type("BoundedProtocol", (Protocol,), bounds),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=int(KEEP_ALIVE),
                timeout_graceful_shutdown=int(STOP_TIMEOUT),
                backlog=BACKLOG,
            )
        )
        self._stopping = stopping
        self._live = gateway.service(Live)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and Ctrl-C. uvicorn's handler would raise them again afterwards."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        yield

    def stop(self) -> None:
        """Take no more requests, and finish those under way."""
        self._stopping()
        self._live.stop()
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Return a socket on TURNMILL_GATEWAY_HOST and _PORT. Raises CallerError that names the setting to change."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise CallerError(why_not_listening(host, port, error, "TURNMILL_GATEWAY")) from None


def url_of(listening: socket.socket) -> str:
    """Return the URL of the socket, for a browser."""
    name: tuple[Any, ...] = listening.getsockname()
    return f"http://[{name[0]}]:{name[1]}" if ":" in name[0] else f"http://{name[0]}:{name[1]}"
