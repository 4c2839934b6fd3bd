"""Deliver a publisher's records to the broker: in order, bounded in memory, on disk if the broker is slow or away.

`publish.transit` holds the records in memory, `publish.spooling` writes those to disk that the broker does not take.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from turnmill.ending import ended
from turnmill.errors import BrokerError, TurnmillError
from turnmill.publish.counts import Counts
from turnmill.publish.spool import Spool
from turnmill.publish.spooling import Spooling
from turnmill.publish.transit import Parcel, Transit
from turnmill.wire.envelope import Headers

UNCONFIRMED_BYTES: Final = 32 * 1024 * 1024  # in memory
FIRST_RETRY_DELAY: Final = 0.2  # seconds before the first retry
MAX_RETRY_DELAY: Final = 5.0


class Producer(Protocol):
    """The interface of connections to Kafka, or to a gateway over HTTP.

    A connection takes records in order. After its first failure it is replaced by another.
    """

    async def send(self, key: bytes, value: bytes, headers: Headers | None) -> asyncio.Future[Any]:
        """Take a record. Return a future that is done when the record is safe or has failed.

        Raises TimeoutError if it takes no records for long (a retry is possible), BrokerError if this connection takes
        no more records at all, or an error for which `refuses` returns True.
        """

    def refuses(self, error: BaseException) -> bool:
        """Return True if an error means that the record itself is refused for good, not that the connection failed."""

    async def close(self) -> None:
        """Disconnect; unconfirmed records stay unconfirmed."""


Connect = Callable[[], Awaitable[Producer]]


class Delivery:
    """Takes records with `put` and delivers them to the broker; `room` keeps memory within bounds.

    `connect` returns a producer, or raises BrokerError if no broker answers. With a `spool` it is then retried; without
    one, its first failure is final. `address` names the broker, or the gateway, in messages. With `drop`, records that
    fit neither into memory nor on disk are dropped and counted.
    """

    def __init__(
        self, connect: Connect, address: str, counts: Counts, spool: Spool | None = None, *, drop: bool = False
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
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self._counts.unconfirmed and self.failure is None:
                    await self._transit.next_change()
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


class Sending:
    """The part of a delivery that sends to the broker. Without `spooling`, its first failure is final."""

    def __init__(self, connect: Connect, address: str, transit: Transit, spooling: Spooling | None) -> None:
        self._connect = connect
        self._address = address
        self._transit = transit
        self._spooling = spooling
        self._broken: BaseException | None = None  # what is wrong with the current producer

    async def run(self) -> None:
        """Send until cancelled, or until a failure without a spool."""
        transit, delay = self._transit, FIRST_RETRY_DELAY
        while True:
            try:
                producer = await self._connect()
                try:
                    self._broken = None
                    transit.connected.set()
                    await self._hand_over(producer)
                finally:
                    await producer.close()
            except TurnmillError as error:
                if self._spooling is None:
                    transit.fail(str(error))
                    return
                transit.troubled(str(error))
            delay = FIRST_RETRY_DELAY if transit.trouble is None else min(delay * 2, MAX_RETRY_DELAY)
            transit.land()
            if self._spooling is not None:
                self._spooling.keep()
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311  # jitter

    async def _hand_over(self, producer: Producer) -> None:
        """Send until the producer fails, then raise BrokerError with its reason."""
        transit = self._transit
        while self._broken is None:
            if not transit.waiting and self._spooling is not None:
                self._spooling.refill()
            if not transit.waiting:
                transit.more.clear()
                await transit.more.wait()
                continue
            parcel = transit.waiting.popleft()
            if parcel.alone:
                await self._all_answered()
            transit.flying[parcel] = None
            try:
                await self._hand(producer, parcel)
            except Exception as error:
                if not producer.refuses(error):
                    raise
                self._refuse(parcel, error)  # it was not sent, since it is larger than the producer allows
                continue
            if parcel.alone:
                await self._all_answered()
        if isinstance(self._broken, TurnmillError):
            raise self._broken
        raise BrokerError(repr(self._broken)) from self._broken

    async def _hand(self, producer: Producer, parcel: Parcel) -> None:
        while self._broken is None:
            try:
                parcel.future = await producer.send(parcel.key, parcel.value, parcel.headers)
            except TimeoutError:
                self._transit.troubled(f"{self._address} accepts no records")
                continue
            parcel.future.add_done_callback(partial(self._answered, producer, parcel))
            return

    async def _all_answered(self) -> None:
        futures = [parcel.future for parcel in self._transit.flying if parcel.future is not None]
        if futures:
            await asyncio.wait(futures)
            await asyncio.sleep(0)  # for their callbacks

    def _answered(self, producer: Producer, parcel: Parcel, future: asyncio.Future[Any]) -> None:
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if parcel.future is not future:  # the result is of an earlier producer; the record was sent again
            return
        if error is None:
            self._transit.trouble = None
            self._transit.counts.confirmed += 1
            self._settle(parcel)
            return
        if self._spooling is not None and producer.refuses(error):
            if parcel.alone:
                self._refuse(parcel, error)
            parcel.alone = True
        self._broken = self._broken or error
        self._transit.more.set()

    def _refuse(self, parcel: Parcel, error: BaseException) -> None:
        if self._spooling is None:
            self._broken = error
            return
        self._transit.counts.refused += 1
        self._spooling.refuse(parcel, error)
        self._settle(parcel)

    def _settle(self, parcel: Parcel) -> None:
        record_ends = self._transit.settle(parcel)
        if self._spooling is not None:
            self._spooling.settled(record_ends)
        self._transit.changed.set()
