"""Records between the publisher and the broker: in order, bounded in memory, on disk where the broker is slow or gone.

A record is at each moment in one of these, and they are sent in this order:

    flying     the producer has it (and it is on disk as well, if it has waited for long)
    waiting    in memory, not yet the producer's
    spool      on disk, not yet read back
    overflow   in memory, because the disk is full as well

Without a spool there are only the first two, and the first failure is the last.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError, RecordListTooLargeError

from threadmill.counts import Counts
from threadmill.envelope import Headers
from threadmill.errors import BrokerError, ThreadmillError
from threadmill.kafka.producer import disconnect
from threadmill.spool import Place, Spool, SpoolFull, fsync_all

UNCONFIRMED_BYTES: Final = 32 * 1024 * 1024  # in memory
SPOOL_AFTER: Final = 1.0  # seconds that a record waits for the broker before it goes to the spool
SYNC_AFTER: Final = 0.1  # seconds in which what is spooled gathers for one fsync
FULL_RETRY: Final = 1.0  # seconds
FIRST_DELAY: Final = 0.2  # seconds until a broker is tried again
LONGEST_DELAY: Final = 5.0
REFUSED: Final = (MessageSizeTooLargeError, RecordListTooLargeError)  # for good, whenever it is tried

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Parcel:
    """One record in memory. `since`: the loop's time when it came. `place`: in the spool, if it is there as well."""

    key: bytes
    value: bytes
    headers: Headers | None
    since: float
    place: Place | None = None
    future: asyncio.Future[Any] | None = None
    settled: bool = False  # confirmed, or refused
    alone: bool = False  # a batch with it was refused: it goes by itself, to tell whether it was the reason


class Delivery:
    """Takes records with `put`, and sees to it that they reach the broker; `room` keeps memory within bounds.

    `connect` gives a producer, or raises BrokerError where there is no broker: it is called again and again, unless
    there is no `spool`. With `drop`, records for which there is no room anywhere are dropped and counted.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[AIOKafkaProducer]],
        topic: str,
        brokers: str,
        counts: Counts,
        spool: Spool | None = None,
        *,
        drop: bool = False,
    ) -> None:
        self._connect = connect
        self._topic = topic
        self._brokers = brokers
        self._counts = counts
        self._spool = spool
        self._drop = drop
        self._flying: dict[Parcel, None] = {}  # in the order in which they were handed over
        self._waiting: deque[Parcel] = deque()
        self._overflow: deque[Parcel] = deque()
        self._on_disk: deque[Parcel] = deque()  # of those in memory, in the spool's order
        self._bytes = 0  # in memory
        self._spooling = spool is not None and spool.unread  # new records go behind what is on disk
        self._changed = asyncio.Event()
        self._more = asyncio.Event()
        self._broken: BaseException | None = None  # of the current producer
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._syncing: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.trouble: str | None = None  # why nothing is confirmed just now
        self.failure: str | None = None  # why nothing will be, ever
        self._task = asyncio.create_task(self._pump())
        self._task.add_done_callback(self._stopped)

    @property
    def waiting(self) -> int:
        """Records that are in memory only."""
        return sum(parcel.place is None for parcel in chain(self._flying, self._waiting, self._overflow))

    def put(self, key: bytes, value: bytes, headers: Headers | None = None) -> None:
        """Take a record; the caller has waited for `room`. On disk it loses its headers."""
        self._counts.records += 1
        self._counts.bytes += len(value)
        if not self._spooling:
            self._waiting.append(self._parcel(key, value, headers))
            self._arm(self._look_at_the_oldest, SPOOL_AFTER)
            if self._bytes > UNCONFIRMED_BYTES:
                self._spill()
        elif self._overflow or self._write(key, value) is None:
            if self._drop and self._bytes > UNCONFIRMED_BYTES:
                self._counts.dropped += 1
            else:
                self._overflow.append(self._parcel(key, value, headers))
        self._more.set()

    async def room(self) -> None:
        """Wait while there is too much in memory. Raises BrokerError once there will be no more."""
        while self._bytes > UNCONFIRMED_BYTES and self.failure is None and not (self._drop and self._spooling):
            await self._next_change()
        if self.failure:
            raise BrokerError(f"{self._brokers} refuses what is published: {self.failure}")

    async def drained(self, within: float) -> int:
        """Wait until all is confirmed, for at most `within` seconds. -> how many records are not."""
        try:
            async with asyncio.timeout(within):
                while self._counts.unconfirmed and self.failure is None:
                    await self._next_change()
        except TimeoutError:
            pass
        return self._counts.unconfirmed

    async def kept(self, within: float) -> bool:
        """Wait until all that was put so far is confirmed or on disk, for at most `within` seconds -> whether it is."""
        mark = self._loop.time()
        try:
            async with asyncio.timeout(within):
                while (oldest := self._oldest()) is not None and oldest.since <= mark and self.failure is None:
                    await self._next_change()
        except TimeoutError:
            return False
        return self.failure is None

    async def close(self, within: float) -> int:
        """Send for at most `within` seconds, spool the rest, disconnect. -> how many could not be kept."""
        try:
            await self.drained(within)
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._task.cancel()
            try:
                await asyncio.wait([self._task])
            finally:
                left = self._keep()
        return left

    def _keep(self) -> int:
        """Write what is in memory only to the spool, and leave that. -> how many could not be kept."""
        if self._spool is None:
            return self._counts.unconfirmed
        rest = [parcel for parcel in chain(self._flying, self._waiting, self._overflow) if parcel.place is None]
        lost = sum(self._write(parcel.key, parcel.value) is None for parcel in rest)
        self._spool.close()
        return lost

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _parcel(self, key: bytes, value: bytes, headers: Headers | None, place: Place | None = None) -> Parcel:
        self._bytes += len(value)
        return Parcel(key, value, headers, self._loop.time(), place)

    # To the broker

    async def _pump(self) -> None:
        delay = FIRST_DELAY
        while True:
            try:
                producer = await self._connect()
                try:
                    self._broken = None
                    await self._hand_over(producer)
                finally:
                    await disconnect(producer)
            except (KafkaError, ThreadmillError) as error:
                if self._spool is None:
                    self._fail(error)
                    return
                self._troubled(str(error) or repr(error))
            delay = FIRST_DELAY if self.trouble is None else min(delay * 2, LONGEST_DELAY)
            self._waiting.extendleft(reversed(self._flying))
            self._flying.clear()
            for parcel in self._waiting:
                parcel.future = None
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311  # jitter

    async def _hand_over(self, producer: AIOKafkaProducer) -> None:
        """Send for as long as the producer is good for it; then raise what is wrong with it."""
        while self._broken is None:
            if not self._waiting:
                self._refill()
            if not self._waiting:
                self._more.clear()
                await self._more.wait()
                continue
            parcel = self._waiting.popleft()
            if parcel.alone:
                await self._landed(producer)
            self._flying[parcel] = None
            try:
                await self._hand(producer, parcel)
            except REFUSED as error:  # it never left: larger than the producer sends at all
                self._refuse(parcel, error)
                continue
            if parcel.alone:
                await self._landed(producer)
        raise self._broken

    async def _hand(self, producer: AIOKafkaProducer, parcel: Parcel) -> None:
        while self._broken is None:
            try:
                parcel.future = await producer.send(self._topic, parcel.value, parcel.key, headers=parcel.headers)
            except KafkaTimeoutError:
                self._troubled(f"{self._brokers} takes nothing")
                continue
            parcel.future.add_done_callback(partial(self._delivered, parcel))
            return

    async def _landed(self, producer: AIOKafkaProducer) -> None:
        futures = [parcel.future for parcel in self._flying if parcel.future is not None]
        if futures:
            await asyncio.wait(futures)
            await asyncio.sleep(0)  # for their callbacks

    def _delivered(self, parcel: Parcel, future: asyncio.Future[Any]) -> None:
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if parcel.future is not future:  # of a producer that was given up
            return
        if error is None:
            self.trouble = None
            self._counts.confirmed += 1
            self._settle(parcel)
            return
        if self._spool is not None and isinstance(error, REFUSED):
            if parcel.alone:
                self._refuse(parcel, error)
            parcel.alone = True
        self._broken = self._broken or (error if isinstance(error, KafkaError) else KafkaError(repr(error)))
        self._more.set()

    def _settle(self, parcel: Parcel) -> None:
        """The broker has it, or never will."""
        parcel.settled = True
        self._flying.pop(parcel, None)
        self._bytes -= len(parcel.value)
        places = []
        while self._on_disk and self._on_disk[0].settled:
            place = self._on_disk.popleft().place
            assert place is not None  # or it would not be on disk
            places.append(place)
        if self._spool is not None and places:
            self._spool.ack(places)
        if self._spooling and self._spool is not None and not self._spool.unread and not self._overflow:
            self._spooling = False
            log.info("%s has taken what was spooled", self._brokers)
        self._changed.set()

    def _refuse(self, parcel: Parcel, error: BaseException) -> None:
        if self._spool is None:
            self._broken = error
            return
        self._counts.refused += 1
        try:
            kept = f"it is kept in {self._spool.refuse(parcel.key, parcel.value, repr(error))}"
        except OSError as full:
            kept = f"and it could not be kept: {full.strerror}"
        log.error("%s refuses a record of %d bytes: %r; %s", self._brokers, len(parcel.value), error, kept)
        self._settle(parcel)

    # To the disk

    def _oldest(self) -> Parcel | None:
        """The first of the records that are in memory only."""
        return next((p for p in chain(self._flying, self._waiting, self._overflow) if p.place is None), None)

    def _look_at_the_oldest(self) -> None:
        oldest = self._oldest()
        if oldest is None or self._spooling or self._spool is None:
            return
        age = self._loop.time() - oldest.since
        if age >= SPOOL_AFTER:
            self._spill()
        else:
            self._arm(self._look_at_the_oldest, SPOOL_AFTER - age)

    def _spill(self) -> None:
        """All that is in memory goes to the disk as well; what the producer does not have yet stays only there."""
        if self._spool is None:
            return
        self._spooling = True
        self.trouble = self.trouble or "no answer, or not fast enough"
        log.warning(
            "%s has not confirmed %d records (%s): they go to the spool %s until it does",
            *(self._brokers, self._counts.unconfirmed, self.trouble, self._spool.folder),
        )
        latest: deque[Parcel] = deque()
        while self._waiting and self._waiting[-1].place is None:
            latest.appendleft(self._waiting.pop())
        for parcel in chain(self._flying, self._waiting):
            if parcel.place is None and (place := self._write(parcel.key, parcel.value)) is not None:
                parcel.place = place
                self._on_disk.append(parcel)
        self._spool.skip()
        self._overflow = latest
        self._unclog()

    def _write(self, key: bytes, value: bytes) -> Place | None:
        """To the spool; None where that is full, which is tried again."""
        assert self._spool is not None  # its callers have looked
        try:
            place = self._spool.append(key, value)
        except SpoolFull as error:
            if self._unclog not in self._timers:
                then = "what comes is dropped" if self._drop else "the agent waits"
                log.error("the spool %s is full: %s; %s", self._spool.folder, error, then)  # noqa: TRY400  # said whole
            self._arm(self._unclog, FULL_RETRY)
            return None
        self._arm(self._sync, SYNC_AFTER)
        return place

    def _unclog(self) -> None:
        """The disk may have room again."""
        while self._overflow and self._write(self._overflow[0].key, self._overflow[0].value) is not None:
            self._bytes -= len(self._overflow.popleft().value)
        self._changed.set()
        self._more.set()

    def _refill(self) -> None:
        """What comes next, from the disk, or from behind it."""
        if self._spool is None:
            return
        for record in self._spool.read():
            parcel = self._parcel(record.key, record.value, None, record.place)
            self._waiting.append(parcel)
            self._on_disk.append(parcel)
        if not self._waiting:
            self._waiting, self._overflow = self._overflow, self._waiting

    def _sync(self) -> None:
        if self._syncing is not None and not self._syncing.done():
            self._arm(self._sync, SYNC_AFTER)
        elif self._spool is not None and (descriptors := self._spool.unsynced()):
            self._syncing = self._loop.run_in_executor(None, fsync_all, descriptors)
            self._syncing.add_done_callback(self._synced)

    def _synced(self, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("the spool can't be synced, a power cut may lose what is in it: %r", error)

    # Both

    def _arm(self, action: Callable[[], None], delay: float) -> None:
        """Call `action` once after `delay` seconds, unless it is to be called anyway."""
        if action not in self._timers:
            self._timers[action] = self._loop.call_later(delay, self._due, action)

    def _due(self, action: Callable[[], None]) -> None:
        del self._timers[action]
        action()

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """Nothing will go out any more: as when an event loop ends, which cancels all its tasks."""
        error = None if task.cancelled() else task.exception()
        self.failure = self.failure or (repr(error) if error else "sending was cancelled")
        self._changed.set()

    def _troubled(self, why: str) -> None:
        if self.trouble != why:
            log.warning("nothing reaches the broker: %s", why)
        self.trouble = why

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or repr(error)
        self._changed.set()
