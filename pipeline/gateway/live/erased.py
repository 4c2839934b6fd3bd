"""The deleted threads, as far as live streams and figures need them."""

import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final

from pipeline.gateway.state import OpenStore, Service, provided
from pipeline.stores.database.errors import StoreError
from pipeline.stores.threads.reading import erased_among
from topics.thread_key import ThreadKey

ERASED_TTL: Final = 5.0  # seconds for which the answer that a thread was not deleted is reused
ERASED_BATCH: Final = 500  # threads in one query of the store
ERASED_CACHE_SIZE: Final = 10_000  # threads that are remembered


@dataclass(slots=True)
class Erasure:
    """The gateway's memory of whether a thread was deleted.

    `asked`: when the store was last queried; `wanted`: when a reader last needed the answer (by time.monotonic()).
    `erased` is final.
    """

    asked: float = -math.inf
    wanted: float = -math.inf
    erased: bool = False


class Erased(Service):
    """The deleted threads, as far as live streams and figures need them.

    The store is queried for each every few seconds at most, together with all others that are soon due.
    """

    def __init__(self, store: OpenStore) -> None:
        self._store = store
        self._known: OrderedDict[ThreadKey, Erasure] = OrderedDict()  # longest since its query first

    async def among(self, threads: Sequence[ThreadKey]) -> set[ThreadKey]:
        """Return the deleted ones of these threads; while the store is away, those known so far."""
        now = time.monotonic()
        for wanted in threads:
            self._known.setdefault(wanted, Erasure()).wanted = now
        late, known = now - ERASED_TTL, self._known
        unsure = [asked for asked in threads if known[asked].asked <= late and not known[asked].erased]
        if unsure:
            unsure += self._soon_unsure(now, {*unsure})
            for asked in unsure:  # set before the query: a single reader of many asks, the others use what is known
                self._known[asked].asked = now
                self._known.move_to_end(asked)
            with suppress(StoreError):
                deleted = await erased_among(await self._store(), unsure)
                for gone in deleted:
                    self._known.setdefault(gone, Erasure(now, now)).erased = True
        erased = {thread for thread in threads if thread in self._known and self._known[thread].erased}
        while len(self._known) > ERASED_CACHE_SIZE:
            self._known.popitem(last=False)
        return erased

    def _soon_unsure(self, now: float, but: set[ThreadKey]) -> list[ThreadKey]:
        """Return other threads whose answer soon expires and is still wanted.

        Hundreds of readers, each of another thread, would otherwise cause a hundred queries a second.
        """
        half = now - ERASED_TTL / 2
        unsure: list[ThreadKey] = []
        for thread, known in self._known.items():
            if known.asked > half or len(unsure) >= ERASED_BATCH:
                break
            if known.wanted > now - 2 * ERASED_TTL and not known.erased and thread not in but:
                unsure.append(thread)
        return unsure


TheErased = Annotated[Erased, provided(Erased)]
