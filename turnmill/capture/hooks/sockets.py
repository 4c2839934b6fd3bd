"""Ends the wait of another thread for an answer: its socket is shut down, which wakes it."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any


def shut(found: Any) -> None:
    """Shut a socket down, if there is one. TLS says nothing any more: the thread that reads sees the end."""
    if isinstance(found, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(found, socket.SHUT_RDWR)


def of_pool(transport: Any, extensions: Any) -> Any:
    """Return the socket of a request that httpcore sends, known by its extensions; None where others share it (HTTP/2).

    What httpcore calls its parts is its own affair: where they are others, the next piece of the answer is told.
    """
    for sent in list(transport._pool._requests):  # noqa: SLF001  # nothing public knows the socket before the answer
        connection: Any = sent.connection if sent.request.extensions is extensions else None
        while getattr(connection, "_connection", None) is not None:
            connection = connection._connection  # noqa: SLF001
        if connection is not None and not hasattr(connection, "_h2_state"):
            return connection._network_stream.get_extra_info("socket")  # noqa: SLF001
    return None
