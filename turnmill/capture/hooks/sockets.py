"""End another thread's wait for an answer by shutting down its socket."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any


def shut(found: Any) -> None:
    """Shut down a socket, if there is one, without TLS's closing message: the thread that reads sees the end."""
    if isinstance(found, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(found, socket.SHUT_RDWR)


def of_pool(transport: Any, extensions: Any) -> Any:
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
