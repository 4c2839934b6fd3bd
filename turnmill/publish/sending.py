"""The task that sends a publisher's records. After a failure it continues with a new producer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol

from turnmill.errors import BrokerError, TurnmillError
from turnmill.publish.spooling import Spooling
from turnmill.publish.transit import Parcel, Transit
from turnmill.wire.envelope import Headers

FIRST_RETRY_DELAY: Final = 0.2  # seconds before the first retry
MAX_RETRY_DELAY: Final = 5.0


class Producer(Protocol):
    """The interface of connections to Kafka, or to a gateway over HTTP.

    A connection takes records in order. After its first failure it is replaced by another one.
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
        places = self._transit.settle(parcel)
        if self._spooling is not None:
            self._spooling.settled(places)
        self._transit.changed.set()
