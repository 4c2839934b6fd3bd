"""Read the state topic's partitions to their end: what open and closed runs a partition had."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from aiokafka import TopicPartition

from pipeline.assembly.restored_state import RestoredState
from pipeline.kafka.reading import read, reader
from pipeline.settings import Settings
from topics.catalog import STATE
from turnmill.errors import InvalidRecord

AT_ONCE: Final = 1000  # records, which are many small objects until they are taken

log = logging.getLogger(__name__)


async def read_state(
    settings: Settings, partitions: Iterable[int], empty: Callable[[], RestoredState]
) -> dict[int, RestoredState]:
    """-> what each partition had; `empty` makes one that has nothing. Raises BrokerError.

    A plain consumer: Faust's tables take seconds.
    """
    topic = STATE.full_name(settings.topic_prefix)
    mine = [TopicPartition(topic, partition) for partition in partitions]
    if not mine:
        return {}
    states = {place: empty() for place in mine}
    async with reader(settings, max_poll_records=AT_ONCE) as consumer:
        begins, ends = await consumer.beginning_offsets(mine), await consumer.end_offsets(mine)
        async for place, records in read(consumer, {place: (begins[place], ends[place]) for place in mine}):
            for record in records:
                _take(states[place], record.key, record.value)
    return {place.partition: found for place, found in states.items()}


def _take(state: RestoredState, key: bytes, value: bytes | None) -> None:
    try:
        state.take(key, value)
    except InvalidRecord as error:  # of a newer worker, or not ours
        log.warning("state entry %r skipped: %s", key[:80], error)
