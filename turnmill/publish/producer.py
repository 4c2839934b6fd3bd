"""The interface by which a publisher sends records; implemented for Kafka and for a gateway over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from turnmill.wire.envelope import Headers


class Producer(Protocol):
    """A connection that takes records in order. After its first failure it is replaced by another one."""

    async def send(self, key: bytes, value: bytes, headers: Headers | None) -> asyncio.Future[Any]:
        """Take a record. Return a future that is done when the record is safe or has failed.

        Raises TimeoutError if it takes no records for long (a retry is possible), BrokerError if this connection takes
        no more records at all, or an error for which `refuses` returns True.
        """

    def refuses(self, error: BaseException) -> bool:
        """Return True if an error means that the record itself is refused for good, not that the connection failed."""

    async def close(self) -> None:
        """Disconnect; unconfirmed records stay unconfirmed."""
