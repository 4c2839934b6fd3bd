"""Write records to a publisher's spool when the broker is slow or away, or memory is full."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from turnmill.publish.spool import Spool, SpoolFull, fsync_all
from turnmill.publish.spool_segment import RecordEnd
from turnmill.publish.transit import Parcel, Transit

SPOOL_AFTER: Final = 1.0  # seconds that a record waits for the broker before it goes to the spool
SYNC_AFTER: Final = 0.1  # seconds from a write to the fsync, which then covers all writes in between
FULL_RETRY: Final = 1.0  # seconds before a full spool is tried again

log = logging.getLogger("turnmill.publish.delivery")


class Spooling:
    """The part of a delivery that spools. While it is `active`, new records are appended to those on disk."""

    def __init__(self, spool: Spool, transit: Transit, address: str, *, drop: bool) -> None:
        self._spool = spool
        self._transit = transit
        self._address = address
        self._drop = drop
        self.active = spool.unread
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._syncing: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    def watch(self) -> None:
        """Spill waiting records to disk after SPOOL_AFTER; at once if no record reaches the broker, as we may die."""
        if self._transit.trouble is not None:
            self.keep()
        else:
            self._arm(self._look_at_the_oldest, SPOOL_AFTER)

    def keep(self) -> None:
        """Write the records that are only in memory to disk, unless the spool is active already."""
        if not self.active and self._transit.oldest() is not None:
            self.spill()

    def put(self, key: bytes, value: bytes) -> bool:
        """Append a record to the spool. Return False if the disk has no room, or other records wait for room."""
        return not self._transit.overflow and self._write(key, value) is not None

    def spill(self) -> None:
        """Write all records in memory to disk, too. Those that the producer doesn't have yet then leave memory."""
        transit = self._transit
        self.active = True
        transit.trouble = transit.trouble or "no answer, or not fast enough"
        log.warning(
            "%s has not confirmed %d records (%s): they go to the spool %s until it does",
            *(self._address, transit.counts.unconfirmed, transit.trouble, self._spool.folder),
        )
        latest: deque[Parcel] = deque()
        while transit.waiting and transit.waiting[-1].record_end is None:
            latest.appendleft(transit.waiting.pop())
        for parcel in (*transit.flying, *transit.waiting):
            if parcel.record_end is None and (record_end := self._write(parcel.key, parcel.value)) is not None:
                parcel.record_end = record_end
                transit.on_disk.append(parcel)
        self._spool.skip()
        transit.overflow = latest
        self._unclog()

    def refill(self) -> None:
        """Put the next records into `waiting`: from disk, or if none is left there, from the overflow."""
        transit = self._transit
        for record in self._spool.read():
            parcel = transit.parcel(record.key, record.value, None, record.record_end)
            transit.waiting.append(parcel)
            transit.on_disk.append(parcel)
        if not transit.waiting:
            transit.waiting, transit.overflow = transit.overflow, transit.waiting

    def settled(self, record_ends: list[RecordEnd]) -> None:
        """Acknowledge these records on disk. Once disk and overflow are empty, new records no longer go to disk."""
        if record_ends:
            self._spool.ack(record_ends)
        if self.active and not self._spool.unread and not self._transit.overflow:
            self.active = False
            log.info("%s has taken what was spooled", self._address)

    def refuse(self, parcel: Parcel, error: BaseException) -> None:
        """Write a record that the broker refuses for good to the file of refused records, and log that."""
        try:
            kept = f"it is kept in {self._spool.refuse(parcel.key, parcel.value, repr(error))}"
        except OSError as full:
            kept = f"and it could not be kept: {full.strerror}"
        log.error("%s refuses a record of %d bytes: %r; %s", self._address, len(parcel.value), error, kept)

    def stop(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.cancel()

    def close(self) -> int:
        """Write the records that are only in memory to the spool, and close it. Return how many were lost."""
        for parcel in list(self._transit.memory_only()):
            parcel.record_end = self._write(parcel.key, parcel.value)
        self._spool.close()
        return sum(1 for _ in self._transit.memory_only())

    def _look_at_the_oldest(self) -> None:
        oldest = self._transit.oldest()
        if oldest is None or self.active:
            return
        age = self._loop.time() - oldest.since
        if age >= SPOOL_AFTER:
            self.spill()
        else:
            self._arm(self._look_at_the_oldest, SPOOL_AFTER - age)

    def _write(self, key: bytes, value: bytes) -> RecordEnd | None:
        """Append a record. Return its end; None if the spool is full (then `_unclog` is scheduled)."""
        try:
            record_end = self._spool.append(key, value)
        except SpoolFull as error:
            if self._unclog not in self._timers:
                then = "new records are dropped" if self._drop else "the agent waits"
                log.error("the spool %s is full: %s; %s", self._spool.folder, error, then)  # noqa: TRY400  # no traceback
            self._arm(self._unclog, FULL_RETRY)
            return None
        self._arm(self._sync, SYNC_AFTER)
        return record_end

    def _unclog(self) -> None:
        """Write records of the overflow to disk as far as there is room now."""
        transit = self._transit
        while transit.overflow and self._write(transit.overflow[0].key, transit.overflow[0].value) is not None:
            transit.bytes -= len(transit.overflow.popleft().value)
        transit.changed.set()
        transit.more.set()

    def _sync(self) -> None:
        if self._syncing is not None and not self._syncing.done():
            self._arm(self._sync, SYNC_AFTER)
        elif descriptors := self._spool.unsynced():
            self._syncing = self._loop.run_in_executor(None, fsync_all, descriptors)
            self._syncing.add_done_callback(_synced)

    def _arm(self, action: Callable[[], None], delay: float) -> None:
        """Call `action` once after `delay` seconds, unless a call is scheduled already."""
        if action not in self._timers:
            self._timers[action] = self._loop.call_later(delay, self._due, action)

    def _due(self, action: Callable[[], None]) -> None:
        del self._timers[action]
        action()


def _synced(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("the spool can't be synced, a power cut may lose what is in it: %r", error)
