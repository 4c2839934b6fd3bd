"""The hooks for transports of httpx and httpx2, which the SDKs of OpenAI, Anthropic, Mistral and Google use today.

Transports are below the clients, so retries, redirects and decoding are not affected. The program gets the same
response, with its stream wrapped in another that reports its chunks to us.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, partial, wraps
from types import ModuleType
from typing import Any

from turnmill.capture import refusal
from turnmill.capture.hooks.common import lowered, patch, prepare_with, reported, shut
from turnmill.capture.passing import CapturedCall
from turnmill.capture.runtime import runtime
from turnmill.capture.secrets import hidden
from turnmill.control.stopping import RunStopped, Stopping, stopping

# Whether an outer transport of ours captures the current request already.
inside: ContextVar[bool] = ContextVar("turnmill_capture_inside", default=False)


def install(module: ModuleType) -> None:
    """Install the hook in this module's transports; a second call changes nothing."""
    sync, asynchronous = module.HTTPTransport, module.AsyncHTTPTransport
    for transport in (sync, asynchronous):
        prepare_with(transport)
    patch(sync, "handle_request", lambda original: _sync(original, module))
    patch(asynchronous, "handle_async_request", lambda original: _async(original, module))


def begin(request: Any, about: Mapping[str, str] | None = None) -> CapturedCall | None:
    """Begin the capture of an httpx request; return None if it goes to no model.

    `about`: facts about the call, treated like headers of the request.
    """
    if inside.get():
        return None
    url = request.url

    def sent_parts() -> tuple[dict[str, str], bytes]:
        secrets = hidden(url.query.decode("ascii", "replace"), url.password)
        return {**(about or {}), **lowered(request.headers), **secrets}, _body(request)

    return runtime().begin(request.method, url.host, url.port, url.path, sent_parts)


def sent(call: CapturedCall, send: Callable[[], Any], transport: Any, request: Any, module: ModuleType) -> Any:
    """Send the request of a call. Return its response, whose stream reports its chunks to the call."""
    if call.stop is not None:
        call.stop.then(lambda _: shut(_socket(transport, request.extensions)))
    try:
        with reported(call):
            call.check()
            response = send()
    except RunStopped as stopped:
        return _refused(module, call, stopped)
    return _answered(response, call, module, _streams(module)[0])


async def sent_async(call: CapturedCall, send: Callable[[], Awaitable[Any]], module: ModuleType) -> Any:
    """Do the same as `sent`, asynchronously."""
    heard = None if call.stop is None else stopping(call.stop)
    try:
        with reported(call):
            response = await (send() if heard is None else heard.during(send))
    except RunStopped as stopped:
        return _refused(module, call, stopped)
    async_stream: Any = _streams(module)[1]
    return _answered(response, call, module, partial(async_stream, heard=heard))


def _socket(transport: Any, extensions: Any) -> Any:
    """Return the socket of a request in httpcore, found by its extensions; None if others share it (HTTP/2).

    The attributes of httpcore are private. If they change, the stop takes effect at the answer's next piece instead.
    """
    for sent in list(transport._pool._requests):  # noqa: SLF001  # before the answer, the socket isn't public
        connection: Any = sent.connection if sent.request.extensions is extensions else None
        while getattr(connection, "_connection", None) is not None:
            connection = connection._connection  # noqa: SLF001
        if connection is not None and not hasattr(connection, "_h2_state"):
            return connection._network_stream.get_extra_info("socket")  # noqa: SLF001
    return None


def _refused(module: Any, call: CapturedCall, stopped: RunStopped) -> Any:
    """Return a response for a call that was stopped before it had one; after an exception, SDKs would retry."""
    return module.Response(refusal.STATUS, headers=refusal.HEADERS, content=refusal.whole(call.dialect, str(stopped)))


def _answered(response: Any, call: CapturedCall, module: Any, heard: Callable[[Any, CapturedCall], Any]) -> Any:
    """Return the same response; its stream reports its chunks to the call."""
    call.answered(response.status_code, lowered(response.headers))
    if isinstance(response.stream, module.ByteStream):  # complete already: made by a transport for tests, or a cache
        call.data(b"".join(response.stream))
        call.finished()
        return response
    response.stream = heard(response.stream, call)
    return response


def _sync(original: Callable[..., Any], module: ModuleType) -> Callable[..., Any]:
    @wraps(original)
    def handle_request(self: Any, request: Any) -> Any:
        call = begin(request)
        if call is None:
            return original(self, request)
        return sent(call, lambda: original(self, request), self, request, module)

    return handle_request


def _async(original: Callable[..., Any], module: ModuleType) -> Callable[..., Any]:
    @wraps(original)
    async def handle_async_request(self: Any, request: Any) -> Any:
        call = begin(request)
        if call is None:
            return await original(self, request)
        return await sent_async(call, lambda: original(self, request), module)

    return handle_async_request


def _body(request: Any) -> bytes:
    """Return a request's body; a streamed upload is not read."""
    try:
        return bytes(request.content)
    except Exception:
        return b""


@cache
def _streams(module: ModuleType) -> tuple[type[Any], type[Any]]:
    """Return stream classes that report chunks to a call; they derive from the module's, as its client requires."""

    class ReportingStream(module.SyncByteStream):  # type: ignore[misc, name-defined]  # a class of whichever module it is
        def __init__(self, stream: Any, call: CapturedCall) -> None:
            self._stream, self._call = stream, call

        def __iter__(self) -> Iterator[bytes]:
            call = self._call
            with reported(call):
                for chunk in self._stream:
                    call.data(chunk)
                    yield chunk
                    call.check()
                call.check()  # without a length, a closed connection looks like the end
            call.finished()

        def close(self) -> None:
            try:
                self._stream.close()
            finally:
                self._call.cancelled()

        def __del__(self) -> None:
            self._call.cancelled()

    class AsyncReportingStream(module.AsyncByteStream):  # type: ignore[misc, name-defined]  # as above
        def __init__(self, stream: Any, call: CapturedCall, heard: Stopping | None) -> None:
            self._stream, self._call, self._heard = stream, call, heard

        async def __aiter__(self) -> AsyncIterator[bytes]:
            call, heard, following = self._call, self._heard, partial(anext, aiter(self._stream))
            with reported(call):
                while True:
                    try:
                        chunk = await (following() if heard is None else heard.during(following))
                    except StopAsyncIteration:
                        break
                    call.data(chunk)
                    yield chunk
                    call.check()
            call.finished()

        async def aclose(self) -> None:
            try:
                await self._stream.aclose()
            finally:
                self._call.cancelled()

        def __del__(self) -> None:
            self._call.cancelled()

    return ReportingStream, AsyncReportingStream
