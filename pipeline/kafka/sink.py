"""The `Work` of a stage whose records are consumed one batch after the other: metrics, and every sink.

`apply` is called with a batch until it succeeds; its offsets may be committed right after. While it fails for a reason
that may pass, the partition stands still, the group membership stays, and nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from pipeline import metrics as m
from pipeline.kafka.patience import Patience
from pipeline.kafka.stage import Records
from pipeline.metrics import Metrics

AT_ONCE: Final = 500  # records: one transaction must not outlast the time that a rebalance waits for it


class Sink:
    """`apply` takes (partition, records), at most AT_ONCE of them."""

    def __init__(self, name: str, apply: Callable[[int, Records], Awaitable[None]], metrics: Metrics) -> None:
        self.name = name
        self.apply = apply
        self.next: dict[int, int] = {}
        self.patience = Patience(name, partial(metrics.add, m.STORE_RETRIES))

    @property
    def trouble(self) -> str | None:
        """See `Work.trouble`."""
        return self.patience.trouble

    async def assign(self, starts: Mapping[int, int]) -> None:
        """No state but the offsets."""
        self.next = dict(starts)
        self.patience.gone.clear()

    def drop(self) -> None:
        """Stop waiting for a store that is away: the batch is another worker's now."""
        self.next = {}
        self.patience.trouble = None

    def interrupt(self) -> None:
        """Give up a batch that waits to be tried again; it is read again by whoever has the partition next."""
        self.patience.gone.set()

    async def handle(self, partition: int, records: Records) -> None:
        """Apply a batch, however long it takes; when the partition is about to go, the rest is for its next owner."""
        todo = [record for record in records if record.offset >= self.next[partition]]
        for start in range(0, len(todo), AT_ONCE):
            some = todo[start : start + AT_ONCE]
            done = await self.patience.until_done(partial(self.apply, partition, some))
            if not done or partition not in self.next:
                return
            # It may have been given away and back meanwhile, with more of it done.
            self.next[partition] = max(self.next[partition], some[-1].offset + 1)

    def floor(self, partition: int) -> int | None:
        """All before it is applied."""
        return self.next.get(partition)

    async def flush(self) -> bool:
        """What was applied is safe already."""
        return True

    async def tick(self, partition: int, idle_ms: int) -> None:
        """Nothing depends on time."""
