"""Writing to a publisher's spool: where the broker is slow or away, or memory is full."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from turnmill.spool import Spool, SpoolFull, fsync_all
from turnmill.spool_segment import RecordEnd
from turnmill.transit import Parcel, Transit

SPOOL_AFTER: Final = 1.0  # seconds that a record waits for the broker before it goes to the spool
SYNC_AFTER: Final = 0.1  # seconds in which spooled records gather for one fsync
FULL_RETRY: Final = 1.0  # seconds

log = logging.getLogger("turnmill.delivery")


class Spooling:
    """The spool's side of a delivery. While it is `active`, new records queue behind those on disk."""

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
        """Spill a waiting record to disk after a while.

        At once where there is no broker, as the process may be killed.
        """
        if self._transit.trouble is not None:
            self.keep()
        else:
            self._arm(self._look_at_the_oldest, SPOOL_AFTER)

    def keep(self) -> None:
        """Write what waits to the disk, unless that is there anyway."""
        if not self.active and self._transit.oldest() is not None:
            self.spill()

    def put(self, key: bytes, value: bytes) -> bool:
        """Write a record behind all others. -> whether there was room on disk, and nothing waits for it before."""
        return not self._transit.overflow and self._write(key, value) is not None

    def spill(self) -> None:
        """Write all that is in memory to the disk as well; what the producer does not have yet stays only there."""
        transit = self._transit
        self.active = True
        transit.trouble = transit.trouble or "no answer, or not fast enough"
        log.warning(
            "%s has not confirmed %d records (%s): they go to the spool %s until it does",
            *(self._address, transit.counts.unconfirmed, transit.trouble, self._spool.folder),
        )
        latest: deque[Parcel] = deque()
        while transit.waiting and transit.waiting[-1].place is None:
            latest.appendleft(transit.waiting.pop())
        for parcel in (*transit.flying, *transit.waiting):
            if parcel.place is None and (place := self._write(parcel.key, parcel.value)) is not None:
                parcel.place = place
                transit.on_disk.append(parcel)
        self._spool.skip()
        transit.overflow = latest
        self._unclog()

    def refill(self) -> None:
        """Put into `waiting` what comes next: from the disk, or else the overflow behind it."""
        transit = self._transit
        for record in self._spool.read():
            parcel = transit.parcel(record.key, record.value, None, record.place)
            transit.waiting.append(parcel)
            transit.on_disk.append(parcel)
        if not transit.waiting:
            transit.waiting, transit.overflow = transit.overflow, transit.waiting

    def settled(self, places: list[RecordEnd]) -> None:
        """Acknowledge these places; once nothing is left on disk or behind it, new records need not go there."""
        if places:
            self._spool.ack(places)
        if self.active and not self._spool.unread and not self._transit.overflow:
            self.active = False
            log.info("%s has taken what was spooled", self._address)

    def refuse(self, parcel: Parcel, error: BaseException) -> None:
        """Keep a record that the broker never takes in a file of its own, and log that."""
        try:
            kept = f"it is kept in {self._spool.refuse(parcel.key, parcel.value, repr(error))}"
        except OSError as full:
            kept = f"and it could not be kept: {full.strerror}"
        log.error("%s refuses a record of %d bytes: %r; %s", self._address, len(parcel.value), error, kept)

    def stop(self) -> None:
        """Let no timer run any more."""
        for timer in self._timers.values():
            timer.cancel()

    def close(self) -> int:
        """Write what is in memory only to the spool, and leave that. -> how many records could not be kept."""
        lost = sum(self._write(parcel.key, parcel.value) is None for parcel in list(self._transit.memory_only()))
        self._spool.close()
        return lost

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
        """Return where the record is; None where the spool is full, which is retried."""
        try:
            place = self._spool.append(key, value)
        except SpoolFull as error:
            if self._unclog not in self._timers:
                then = "what comes is dropped" if self._drop else "the agent waits"
                log.error("the spool %s is full: %s; %s", self._spool.folder, error, then)  # noqa: TRY400  # no traceback
            self._arm(self._unclog, FULL_RETRY)
            return None
        self._arm(self._sync, SYNC_AFTER)
        return place

    def _unclog(self) -> None:
        """Write what waits for room on the disk, as far as there is room now."""
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
        """Call `action` once after `delay` seconds, unless it is to be called anyway."""
        if action not in self._timers:
            self._timers[action] = self._loop.call_later(delay, self._due, action)

    def _due(self, action: Callable[[], None]) -> None:
        del self._timers[action]
        action()


def _synced(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("the spool can't be synced, a power cut may lose what is in it: %r", error)
