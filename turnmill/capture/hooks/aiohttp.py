"""The hook for aiohttp's client: its sessions, and the readers of their responses when they receive bytes.

aiohttp decodes answers as it receives them, so we capture decoded bytes, even if the program never reads the answer.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache, partial, wraps
from types import ModuleType
from typing import Any, Final

from turnmill.capture.hooks.common import body_bytes, gone, lowered, patch, prepare_with
from turnmill.capture.passing import CapturedCall
from turnmill.capture.runtime import runtime
from turnmill.capture.secrets import hidden
from turnmill.control.stopping import RunStopped, stopping

CLOSED: Final = "Connection closed"  # the exception's text in a reader whose response was closed early

_heard: dict[int, CapturedCall] = {}  # by the id() of readers, which can't have a further attribute


def install(module: ModuleType) -> None:
    """Install the hook in this module's sessions; a second call changes nothing."""
    prepare_with(module.ClientSession)
    patch(module.ClientSession, "_request", lambda original: _request(original, module))


def _request(original: Callable[..., Any], module: ModuleType) -> Callable[..., Any]:
    @wraps(original)
    async def _request(self: Any, method: str, str_or_url: Any, **kwargs: Any) -> Any:
        call = _begin(self, method, str_or_url, kwargs, module)
        if call is None:
            return await original(self, method, str_or_url, **kwargs)
        heard = None if call.stop is None else stopping(call.stop)
        send = partial(original, self, method, str_or_url, **kwargs)
        try:
            response = await (send() if heard is None else heard.during(send))
        except BaseException as error:
            refusal = getattr(error, "status", None)  # the session may raise for a status
            if isinstance(refusal, int) and refusal:
                call.answered(refusal, {})
                call.finished()
            gone(call, error)
            raise
        try:
            _answered(response, call, module)
        except Exception as error:
            call.failed(error)
        return response

    return _request


def _begin(
    session: Any, method: str, address: Any, kwargs: Mapping[str, Any], module: ModuleType
) -> CapturedCall | None:
    try:
        url = session._build_url(address)  # noqa: SLF001  # aiohttp itself calls it
        host, port, path = url.host or "", url.explicit_port, url.path
    except Exception:
        return None
    return runtime().begin(method, host, port, path, lambda: (_headers(session, url, kwargs), _body(kwargs)))


def _headers(session: Any, url: Any, kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that the program sets, and the credentials in its other arguments (see `hidden`)."""
    auth = kwargs.get("auth") or session.auth
    cookies = (*session.cookie_jar.filter_cookies(url).values(), *dict(kwargs.get("cookies") or {}).values())
    texts = (str(getattr(cookie, "value", cookie)) for cookie in cookies)
    query = url.update_query(kwargs.get("params") or "").raw_query_string
    fields = hidden(query, url.password, getattr(auth, "password", None), *texts)
    for headers in (session.headers, kwargs.get("headers")):
        fields |= {str(name).lower(): str(value) for name, value in dict(headers or {}).items()}
    return fields


def _body(kwargs: Mapping[str, Any]) -> bytes:
    return body_bytes(kwargs.get("data") if kwargs.get("json") is None else json.dumps(kwargs["json"]))


def _answered(response: Any, call: CapturedCall, module: ModuleType) -> None:
    headers = lowered(response.headers)
    session = getattr(response, "_session", None)
    if session is None or session.auto_decompress:
        headers.pop("content-encoding", None)
    call.answered(response.status, headers)
    reader = response.content
    for chunk in getattr(reader, "_buffer", ()):  # received with the headers
        call.data(chunk)
    if reader.exception() is not None:
        gone(call, reader.exception())
    elif reader.is_eof():
        call.finished()
    elif type(reader) is module.StreamReader:
        _heard[id(reader)] = call
        reader.__class__ = _reader(module)
        if call.stop is not None and response.connection is not None:
            # The reader reports why. Only the connection is kept here, since the response may be dropped meanwhile.
            connection = response.connection.transport
            call.stop.in_loop(lambda _: connection.abort())


@cache
def _reader(module: ModuleType) -> type[Any]:
    """Return a class of readers that report their data. It adds no fields, so existing readers can change to it."""

    class ReportingReader(module.StreamReader):  # type: ignore[misc, name-defined]  # a class of the module that the program has
        __slots__ = ()

        def feed_data(self, data: bytes, *args: Any) -> Any:
            call = _heard.get(id(self))
            if call is not None:
                call.data(data)
            return super().feed_data(data, *args)

        def feed_eof(self) -> None:
            call = _heard.get(id(self))
            if call is not None and call.stop_error is not None:  # an answer without a length ends with its connection
                self.set_exception(call.stop_error)
                return
            _heard.pop(id(self), None)
            if call is not None:
                call.finished()
            super().feed_eof()

        def set_exception(self, exc: Any, *args: Any) -> None:
            call = _heard.pop(id(self), None)
            stopped = None if call is None else _broken(self, call, exc)
            super().set_exception(stopped or exc, *args)

        def __del__(self) -> None:
            call = _heard.pop(id(self), None)
            if call is not None:
                call.cancelled()

    return ReportingReader


def _broken(reader: Any, call: CapturedCall, error: Any) -> RunStopped | None:
    """Report a reader's exception: the connection broke, or the program closed its response.

    Return the exception to raise in the program instead, if the call was stopped.
    """
    if (stopped := call.stop_error) is not None:
        gone(call, stopped)
        return stopped
    if getattr(getattr(reader, "_timer", None), "_cancelled", False):
        call.failed("TimeoutError: the session's timeout")
    elif CLOSED in str(error):
        call.cancelled()
    else:
        gone(call, error if isinstance(error, BaseException) else RuntimeError(str(error)))
    return None
