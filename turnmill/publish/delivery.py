"""Deliver a publisher's records to the broker: in order, bounded in memory, on disk if the broker is slow or away.

`publish.transit` holds the records in memory, `publish.sending` sends them to the broker, and `publish.spooling` writes
those to disk that the broker does not take.
"""

from __future__ import annotations

import asyncio
from typing import Final

from turnmill.ending import ended
from turnmill.errors import BrokerError
from turnmill.publish.counts import Counts
from turnmill.publish.sending import Connect, Sending
from turnmill.publish.spool import Spool
from turnmill.publish.spooling import Spooling
from turnmill.publish.transit import Transit
from turnmill.wire.envelope import Headers

UNCONFIRMED_BYTES: Final = 32 * 1024 * 1024  # in memory


class Delivery:
    """Takes records with `put` and delivers them to the broker; `room` keeps memory within bounds.

    `connect` returns a producer, or raises BrokerError if no broker answers. With a `spool` it is then retried; without
    one, its first failure is final. `address` names the broker, or the gateway, in messages. With `drop`, records that
    fit neither into memory nor on disk are dropped and counted.
    """

    def __init__(
        self,
        connect: Connect,
        address: str,
        counts: Counts,
        spool: Spool | None = None,
        *,
        drop: bool = False,
    ) -> None:
        self._address = address
        self._counts = counts
        self._drop = drop
        self._transit = Transit(counts)
        self._spooling = None if spool is None else Spooling(spool, self._transit, address, drop=drop)
        sending = Sending(connect, address, self._transit, self._spooling)
        self._task = asyncio.create_task(sending.run(), name="publisher")
        self._task.add_done_callback(self._stopped)

    @property
    def waiting(self) -> int:
        """The number of records that are in memory only."""
        return sum(1 for _ in self._transit.memory_only())

    @property
    def trouble(self) -> str | None:
        """The reason if nothing is confirmed at the moment, else None."""
        return self._transit.trouble

    @property
    def failure(self) -> str | None:
        """The reason if nothing will be confirmed any more, else None."""
        return self._transit.failure

    async def connected(self) -> None:
        """Return once the broker, or the gateway, has answered."""
        await self._transit.connected.wait()

    def put(self, key: bytes, value: bytes, headers: Headers | None = None) -> None:
        """Take a record; the caller has waited for `room`. The spool does not keep its headers."""
        transit, spooling = self._transit, self._spooling
        self._counts.records += 1
        self._counts.bytes += len(value)
        if spooling is None or not spooling.active:
            transit.waiting.append(transit.parcel(key, value, headers))
            if spooling is not None:
                spooling.watch()
                if self._is_full:
                    spooling.keep()
        elif not spooling.put(key, value):
            if self._drop and self._is_full:
                self._counts.dropped += 1
            else:
                transit.overflow.append(transit.parcel(key, value, headers))
        transit.more.set()

    async def room(self) -> None:
        """Wait while too much is in memory. Raises BrokerError if nothing will be confirmed any more."""
        spooling = self._spooling
        while self._is_full and self.failure is None and not (self._drop and spooling is not None and spooling.active):
            await self._transit.next_change()
        if self.failure:
            raise BrokerError(f"{self._address} refuses what is published: {self.failure}")

    async def drained(self, within: float) -> int:
        """Wait up to `within` seconds until all records are confirmed. Return how many are not."""
        try:
            async with asyncio.timeout(within):
                while self._counts.unconfirmed and self.failure is None:
                    await self._transit.next_change()
        except TimeoutError:
            pass
        return self._counts.unconfirmed

    async def kept(self, within: float) -> bool:
        """Wait up to `within` seconds until all records put so far are confirmed or on disk -> whether they are."""
        transit, mark = self._transit, asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(within):
                while (oldest := transit.oldest()) is not None and oldest.since <= mark and self.failure is None:
                    await transit.next_change()
        except TimeoutError:
            return False
        return self.failure is None

    async def close(self, within: float) -> int:
        """Send for at most `within` seconds, spool the rest and disconnect. Return how many records were lost."""
        try:
            await self.drained(within)
        finally:
            if self._spooling is not None:
                self._spooling.stop()
            try:
                await ended(self._task)
            finally:
                left = self._counts.unconfirmed if self._spooling is None else self._spooling.close()
        return left

    @property
    def _is_full(self) -> bool:
        return self._transit.bytes > UNCONFIRMED_BYTES

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """Note the end of the sending task, for example when an event loop ends and cancels all its tasks."""
        error = None if task.cancelled() else task.exception()
        self._transit.fail(repr(error) if error else "sending was cancelled")
