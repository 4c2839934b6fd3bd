"""Moves large values of turn records to the content store, before the records are published; references stay."""

import asyncio
from typing import Final

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.keys import key_of
from pipeline.turns.content import Piece, has_long_text, large, moved
from topics import catalog, turn_record
from topics.json_text import Fields, size_of
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord

MAX_RECORD_BYTES: Final = catalog.TURNS.max_message_bytes - 1_000_000  # the topic takes no larger records
CONCURRENCY: Final = 16  # objects that are written at the same time
HELD_VALUES: Final = 8  # values of a large run that are in memory as bytes, too


class Offload:
    """Moves values out of records of `threshold` bytes or more, keeping the hash; of large runs a few at a time."""

    def __init__(self, contents: ContentStore, threshold: int, metrics: Metrics) -> None:
        self.contents = contents
        self.threshold = threshold
        self.metrics = metrics
        self._slots = asyncio.Semaphore(CONCURRENCY)

    async def __call__(self, value: bytes) -> bytes:
        """Return an encoded record with references, after its values are stored. Raises StoreError."""
        record = turn_record.decode(value)
        turn = record["turn"]
        chosen = large(turn, len(value), self.threshold, MAX_RECORD_BYTES) if turn is not None else []
        if turn is None or not chosen:
            return value
        refs = await asyncio.gather(*(self._write(key_of(record), piece) for piece in chosen))
        record["turn"] = moved(turn, zip(chosen, refs, strict=True))
        return turn_record.encode(record)

    async def move(self, record: TurnRecord) -> None:
        """Put references into a record, each after its value is stored. Raises StoreError, and can be called again."""
        await self._move(record, self._chosen(record))

    def has_long_text(self, record: TurnRecord) -> bool:
        """Return True if a value is a text of `threshold` characters or more: it is moved before it is encoded."""
        return record["turn"] is not None and has_long_text(record["turn"], self.threshold)

    async def move_longest(self, record: TurnRecord) -> None:
        """Replace values of at least `threshold` bytes by references; otherwise as `move`."""
        if record["turn"] is not None:
            await self._move(record, large(record["turn"], 0, self.threshold, MAX_RECORD_BYTES))

    async def _move(self, record: TurnRecord, chosen: list[Piece]) -> None:
        while chosen and record["turn"] is not None:
            some = chosen[-HELD_VALUES:]
            refs = await asyncio.gather(*(self._write(key_of(record), piece) for piece in some))
            record["turn"] = moved(record["turn"], zip(some, refs, strict=True))
            del chosen[-HELD_VALUES:]

    def fits(self, record: TurnRecord) -> bool:
        """Return True if the turns topic takes a record once its values are moved."""
        chosen, turn = self._chosen(record), record["turn"]
        if turn is not None and chosen:
            ref = self.contents.ref(key_of(record), b"", "")  # as long as any other, except for its media type
            turn = moved(turn, ((piece, {**ref, "media_type": piece.media_type}) for piece in chosen))
        slim: TurnRecord = {**record, "turn": turn}
        return size_of(slim) <= MAX_RECORD_BYTES and len(turn_record.encode(slim)) <= MAX_RECORD_BYTES

    def _chosen(self, record: TurnRecord) -> list[Piece]:
        return (
            large(record["turn"], size_of(record), self.threshold, MAX_RECORD_BYTES)
            if record["turn"] is not None
            else []
        )

    async def _write(self, key: ThreadKey, piece: Piece) -> Fields:
        async with self._slots:
            data = piece.data
            ref = await self.contents.put(key, data, piece.media_type)
        self.metrics.add(m.CONTENT_OBJECTS)
        self.metrics.add(m.CONTENT_BYTES, len(data))
        return ref
