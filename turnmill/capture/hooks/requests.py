"""The hooks for requests and for botocore, which boto3 uses: what sends, and reads of the raw response.

The raw response is urllib3's, below the response that programs use.
"""

import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from turnmill.capture.hooks.common import body_bytes, lowered, patch, prepare_with, reported, shut
from turnmill.capture.passing import CapturedCall
from turnmill.capture.runtime import runtime
from turnmill.capture.secrets import hidden

# The call that waits for its answer, so that `_waiting` finds its connection.
sending: ContextVar[CapturedCall | None] = ContextVar("turnmill_capture_sending", default=None)


def install(module: ModuleType) -> None:
    """Install the hook in this module's adapters, or its session; a second call changes nothing."""
    sender = module.URLLib3Session if module.__name__ == "botocore.httpsession" else module.adapters.HTTPAdapter
    prepare_with(sender)
    patch(sender, "send", _send)
    patch(import_module("urllib3.connection").HTTPConnection, "getresponse", _waiting)


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(request)
        if call is None:
            return original(self, request, *args, **kwargs)
        token = sending.set(call)
        try:
            with reported(call):
                call.check()
                response = original(self, request, *args, **kwargs)
        finally:
            sending.reset(token)
        try:
            _listen(response, call, request)
        except Exception as error:
            call.failed(error)
        return response

    return send


def _waiting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def getresponse(self: Any, *args: Any, **kwargs: Any) -> Any:
        call, awaited = sending.get(), self.sock
        if call is not None and call.stop is not None:
            call.stop.then(lambda _: shut(awaited))
        return original(self, *args, **kwargs)

    return getresponse


def _begin(request: Any) -> CapturedCall | None:
    try:
        url = urlsplit(request.url)
        host, port = url.hostname or "", url.port
    except ValueError:
        return None
    return runtime().begin(
        request.method or "",
        host,
        port,
        unquote(url.path),
        lambda: (lowered(request.headers) | hidden(url.query, unquote(url.password or "")), body_bytes(request.body)),
    )


def _listen(response: Any, call: CapturedCall, request: Any) -> None:
    """Report the data that the raw response returns. Its methods call each other: only the outermost call counts."""
    raw = response.raw
    reporter = _ReadReporter(call, response.status_code, lowered(response.headers))
    of_botocore = hasattr(request, "stream_output")
    if of_botocore and not request.stream_output:  # it has read the body
        list(reporter.each(iter([response.content]), decoded=False))
        return
    stream, read, close = raw.stream, raw.read, raw.close

    @wraps(stream)
    def streamed(amt: Any = 65_536, decode_content: Any = None) -> Iterator[bytes]:
        yield from reporter.each(stream(amt, decode_content=decode_content), decoded=decode_content)

    @wraps(read)
    def a_read(amt: Any = None, *args: Any, **kwargs: Any) -> Any:
        decoded = kwargs.get("decode_content", args[0] if args else None)
        return reporter.read_once(
            lambda: read(amt, *args, **kwargs),
            is_last=lambda got: amt in (None, -1) or (not got and amt != 0),
            decoded=decoded,
        )

    @wraps(close)
    def closed(*args: Any, **kwargs: Any) -> Any:
        try:
            return close(*args, **kwargs)
        finally:
            if not reporter.inside:  # otherwise it is closed because a read has failed
                call.cancelled()

    raw.stream, raw.read, raw.close = streamed, a_read, closed
    # botocore drops its response, and hands what is below it to the program.
    weakref.finalize(raw if of_botocore else response, call.cancelled).atexit = False


class _ReadReporter:
    """Reports read data to a call. Only the first read shows whether the data is decoded."""

    def __init__(self, call: CapturedCall, status: int, headers: dict[str, str]) -> None:
        self._call, self._status, self._headers = call, status, headers
        self.inside = self._begun = False
        if "content-encoding" not in headers:
            self._tell(b"", None)

    def each(self, chunks: Any, *, decoded: Any) -> Iterator[bytes]:
        with reported(self._call):
            while True:
                self.inside = True
                try:
                    chunk = next(chunks)
                except StopIteration:
                    break
                finally:
                    self.inside = False
                self._tell(chunk, decoded)
                yield chunk
                self._call.check()
            self._call.check()  # without a length, a closed connection looks like the end
        self._tell(b"", decoded)
        self._call.finished()

    def read_once(self, read: Callable[[], Any], *, is_last: Callable[[Any], bool], decoded: Any) -> Any:
        if self.inside:
            return read()
        self.inside = True
        try:
            with reported(self._call):
                got = read()
                self._call.check()
        finally:
            self.inside = False
        self._tell(got, decoded)
        if is_last(got):
            self._call.finished()
        return got

    def _tell(self, chunk: bytes, decoded: Any) -> None:
        if not self._begun:
            self._begun = True
            encoded = {
                name: value for name, value in self._headers.items() if name != "content-encoding" or not decoded
            }
            self._call.answered(self._status, encoded)
        self._call.data(chunk)
