"""Moves large values of turns to the content store before the turns are sent; without one, checks whether they fit."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from pipeline.assembly.results import Out
from pipeline.kafka.outbox import MAX_REQUEST_BYTES, Outgoing
from pipeline.stores.content.offload import Offload
from pipeline.stores.database.errors import StoreError
from pipeline.worker.host.work import Retry
from topics import json_text, turn_record
from topics.turn_record import TurnRecord

log = logging.getLogger(__name__)

OVERHEAD: Final = 200  # bytes of a record in addition to its value


def fits_inline(record: TurnRecord) -> bool:
    """Return True if the turns topic takes a record with all values in it."""
    most = MAX_REQUEST_BYTES - OVERHEAD
    return json_text.size_of(record) <= most and len(turn_record.encode(record)) <= most


async def moved(out: Out, offload: Offload, retry: Retry) -> bool:
    """Move values to the content store before their turns are encoded; return False if the partition was given up.

    Large turns are processed one after the other, to save memory; long texts of all others at once.
    """
    for record in out.turns if out.large else ():
        key = record.get("tenant"), record["turn_id"]
        if key in out.large:
            if not await retry.until_done(partial(offload.move, record)):
                return False
            out.large.discard(key)
    long = [record for record in out.turns if offload.has_long_text(record)]
    return not long or await retry.until_done(partial(_move, long, offload))


async def _move(records: Sequence[TurnRecord], offload: Offload) -> None:
    results = await asyncio.gather(*(offload.move_longest(record) for record in records), return_exceptions=True)
    for record, error in zip(records, results, strict=True):
        if isinstance(error, StoreError) or not isinstance(error, Exception | None):
            raise error
        if error is not None:  # it is sent unchanged, as below
            log.warning("turn %r keeps its large values: %r", record["turn_id"], error)


async def offloaded(records: deque[Outgoing], topic: str, offload: Offload, retry: Retry) -> bool:
    """Move large values of the turns among these records, however long it takes. Return False if given up.

    `topic`: the turns topic.
    """
    turns = [index for index, record in enumerate(records) if record.topic == topic]
    large = [index for index in turns if len(records[index].value or b"") >= offload.threshold]
    return not large or await retry.until_done(partial(_offload, records, large, offload))


async def _offload(records: deque[Outgoing], large: Sequence[int], offload: Offload) -> None:
    values = await asyncio.gather(*(offload(records[index].value or b"") for index in large), return_exceptions=True)
    for value in values:
        if isinstance(value, StoreError) or not isinstance(value, bytes | Exception):
            raise value
    for index, value in zip(large, values, strict=True):
        if isinstance(value, bytes):
            records[index] = records[index]._replace(value=value)
        else:  # it is sent unchanged: a reader that can't use it, either, makes a dead letter with all its bytes
            log.warning("%s of %r keeps its large values: %r", records[index].topic, records[index].key, value)
