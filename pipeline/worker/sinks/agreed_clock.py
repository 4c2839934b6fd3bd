"""The clock by which the store role expires threads and audit entries."""

import logging
import math
import time
from dataclasses import dataclass
from typing import Final

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.believed_time import JUMP_MS, believe, believed_time
from pipeline.stores.outbound.notices import KNOWN_MS, add_notices
from pipeline.worker.sinks.housekeeping import Connect, OpenStore
from topics import notice
from topics.catalog import DAY_MS, FACTS
from topics.notice import NoticeRecord
from turnmill.clock import now_ms

CLOCK_INTERVAL: Final = 60.0  # seconds, after which the broker is asked for its time again

log = logging.getLogger(__name__)


@dataclass(slots=True)
class AgreedClock:
    """The earlier of this machine's time and the broker's, so that no single clock makes anything expire.

    If both have jumped ahead, it is the latest time that was believed, so that nothing more expires until an agent's
    clock or an operator confirms the jump. The broker is asked once in CLOCK_INTERVAL; in between its time goes on by
    the monotonic clock.
    """

    connect: Connect
    store: OpenStore
    _broker: int = 0  # epoch ms
    _asked: float = -math.inf  # when that was its time, by the monotonic clock
    _called: float = math.inf  # when it was called last, by that clock

    async def __call__(self) -> int:
        """Return it, in epoch ms. Raises BrokerError, StoreError, and the client's errors."""
        store = await self.store()
        if time.monotonic() - self._asked > CLOCK_INTERVAL:
            self._broker, self._asked = await broker_time(self.connect), time.monotonic()
            if now_ms() - self._broker > JUMP_MS:
                await self._warn(store, "this machine's clock is", self._broker, now_ms())
        now = min(now_ms(), self._broker + int((time.monotonic() - self._asked) * 1000))
        passed = int(max(0.0, time.monotonic() - self._called) * 1000)
        self._called = time.monotonic()
        if (believed := await believed_time(store, now, passed)) < now:
            await self._warn(store, "the clocks of this machine and of the broker are", believed, now)
        else:
            await believe(store, now)
        return believed

    async def _warn(self, store: ThreadStore, clocks: str, seen: int, told: int) -> None:
        log.error("%s %d s ahead of all others: what expires waits (docs/retention.md)", clocks, (told - seen) // 1000)
        warning: NoticeRecord = {
            "v": notice.VERSION,
            "id": f"clock:{seen // DAY_MS}",  # once a day
            "type": notice.CLOCK_AHEAD,
            "at": now_ms(),
            "data": {"seen": seen, "told": told},
        }
        await add_notices(store, [warning], keep_until=told + KNOWN_MS)


async def broker_time(connect: Connect) -> int:
    """Return the time that the broker gives to a record that nobody reads."""
    producer = await connect(FACTS)
    try:
        asked: NoticeRecord = {"v": notice.VERSION, "id": "clock", "type": "clock.read", "at": 0, "data": {}}
        return int((await (await producer.send(b"clock", notice.encode(asked), None))).timestamp)
    finally:
        await producer.close()
