"""The deleted threads, as far as live streams and figures need them."""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from typing import Annotated, Final

from pipeline.gateway.state import OpenStore, Service, provided
from pipeline.policies.pools import ERASED
from pipeline.stores.database.errors import StoreError
from pipeline.stores.threads.reading import erased_among
from topics.thread_key import ThreadKey
from turnmill.remembered import Remembered

ERASED_TTL: Final = 5.0  # seconds for which the answer that a thread was not deleted is reused
ERASED_BATCH: Final = 500  # threads in one query of the store
ERASURE_BYTES: Final = 150  # of memory, of what is known of a thread


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
        self._known: Remembered[ThreadKey, Erasure] = Remembered(  # longest since its query first
            ERASED, lambda _: ERASURE_BYTES
        )

    async def among(self, threads: Sequence[ThreadKey]) -> set[ThreadKey]:
        """Return the deleted ones of these threads; while the store is away, those known so far."""
        now = time.monotonic()
        wanted = {thread: self._erasure(thread) for thread in threads}
        for each in wanted.values():
            each.wanted = now
        unsure = {thread: each for thread, each in wanted.items() if each.asked <= now - ERASED_TTL and not each.erased}
        if unsure:
            unsure = self._soon_unsure(now) | unsure
            for thread, each in unsure.items():  # before the query: one reader of many asks, others use what is known
                each.asked = now
                self._known.pop(thread.tenant, thread)
                self._known.put(thread.tenant, thread, each)
            with suppress(StoreError):
                for gone in await erased_among(await self._store(), [*unsure]):
                    unsure[gone].erased = True
        return {thread for thread, each in wanted.items() if each.erased}

    def _erasure(self, thread: ThreadKey) -> Erasure:
        if (known := self._known.get(thread.tenant, thread)) is None:
            self._known.put(thread.tenant, thread, known := Erasure())
        return known

    def _soon_unsure(self, now: float) -> dict[ThreadKey, Erasure]:
        """Return threads whose answer soon expires and is still wanted.

        Hundreds of readers, each of another thread, would otherwise cause a hundred queries a second.
        """
        half, since = now - ERASED_TTL / 2, now - 2 * ERASED_TTL
        due = (takewhile(lambda at: at[1].asked <= half, self._known.of(tenant)) for tenant in self._known.scopes)
        wanted = (at for at in chain.from_iterable(due) if at[1].wanted > since and not at[1].erased)
        return dict(islice(wanted, ERASED_BATCH))


TheErased = Annotated[Erased, provided(Erased)]
