"""The interface by which a publisher sends records; implemented for Kafka and for a gateway over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from turnmill.envelope import Headers


class Producer(Protocol):
    """A connection that takes records in order. After its first failure it is given up for another one."""

    async def send(self, key: bytes, value: bytes, headers: Headers | None) -> asyncio.Future[Any]:
        """Take a record -> what is done when the record is safe, or has failed.

        Raises TimeoutError where nothing is taken for long (it can be tried again), BrokerError where this connection
        takes nothing any more, and what `refuses` knows.
        """

    def refuses(self, error: BaseException) -> bool:
        """Return True if an error is about the record, which is never taken, rather than about the connection."""

    async def close(self) -> None:
        """Disconnect; what is not confirmed stays so."""
