"""The common part of all hooks: patching, the parts of a request, and the end of a call by an exception."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, Final

from turnmill.capture.passing import CapturedCall
from turnmill.capture.runtime import runtime
from turnmill.control.stopping import RunStopped

OWN_MARK: Final = "_turnmill_capture"


def patch(owner: type[Any], name: str, around: Callable[[Any], Any]) -> None:
    """Replace a method by `around(original)`, unless it was replaced before."""
    original = getattr(owner, name)
    if not getattr(original, OWN_MARK, False):
        replacement = around(original)
        setattr(replacement, OWN_MARK, True)
        setattr(owner, name, replacement)


def prepare_with(owner: type[Any]) -> None:
    """Prepare for publishing when the program makes an object of this class, so that its first call isn't slower."""

    def prepared(original: Callable[..., None]) -> Callable[..., None]:
        @wraps(original)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  # it replaces `__init__`
            original(self, *args, **kwargs)
            runtime().prepare()

        return __init__

    patch(owner, "__init__", prepared)


def lowered(headers: Mapping[Any, Any]) -> dict[str, str]:
    """Return headers with their names in lower case."""
    return {str(name).lower(): value if isinstance(value, str) else repr(value) for name, value in headers.items()}


def body_bytes(body: Any) -> bytes:
    """Return a body that is text or bytes; empty for any other, such as a stream."""
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    return bytes(body) if isinstance(body, (bytes, bytearray, memoryview)) else b""


def gone(call: CapturedCall, error: BaseException) -> None:
    """End a call because of an exception, or the end of its task. Raises RunStopped if it was told to stop."""
    if not isinstance(error, Exception):
        call.cancelled()
    elif isinstance(error, RunStopped):
        call.stopped()
    elif (stopped := call.stop_error) is not None:
        call.stopped()
        raise stopped from error
    else:
        call.failed(error)


@contextmanager
def reported(call: CapturedCall) -> Iterator[None]:
    """End the call if the block raises, as `gone` does; the exception goes on."""
    try:
        yield
    except BaseException as error:
        gone(call, error)
        raise


def shut(connection: Any) -> None:
    """Shut down a socket, if any, without TLS's closing message: the thread that waits in it sees the end."""
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
