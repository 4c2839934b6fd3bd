"""Turn records on their way to the turns topic: large values go to the content store, references stay."""

from __future__ import annotations

import asyncio
from typing import Final

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.stores.content import ContentStore
from pipeline.turns.content import Piece, large, moved
from topics import catalog, turn_record
from topics.json_text import Fields

MOST: Final = catalog.TURNS.max_message_bytes - 1_000_000  # of a record: the topic takes no larger ones
AT_ONCE: Final = 8  # objects that are written at the same time


class Offload:
    """Moves large values of an encoded turn record of `threshold` bytes or more; smaller records hold none."""

    def __init__(self, contents: ContentStore, threshold: int, metrics: Metrics) -> None:
        self.contents = contents
        self.threshold = threshold
        self.metrics = metrics
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, value: bytes) -> bytes:
        """-> the record with references, after the values are stored. Its hash stays the same. Raises StoreError."""
        record = turn_record.decode(value)
        turn = record["turn"]
        chosen = large(turn, len(value), self.threshold, MOST) if turn is not None else []
        if turn is None or not chosen:
            return value
        refs = await asyncio.gather(*(self._write(record["thread_id"], piece) for piece in chosen))
        record["turn"] = moved(turn, zip(chosen, refs, strict=True))
        return turn_record.encode(record)

    async def _write(self, thread_id: str, piece: Piece) -> Fields:
        async with self._slots:
            ref = await self.contents.put(thread_id, piece.data, piece.media_type)
        self.metrics.add(m.CONTENT_OBJECTS)
        self.metrics.add(m.CONTENT_BYTES, len(piece.data))
        return ref
