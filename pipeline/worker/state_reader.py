"""Read the state topic's partitions to their end: what open and closed runs a partition had."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from pipeline.assembly.restored_state import RestoredState
from pipeline.settings import Settings
from threadmill.errors import InvalidRecord
from threadmill.kafka.client import client_options
from topics.catalog import STATE

AT_ONCE: Final = 1000  # records, which are many small objects until they are taken

log = logging.getLogger(__name__)


async def read_state(settings: Settings, partitions: Iterable[int]) -> dict[int, RestoredState]:
    """-> what each partition had. A plain consumer without a group: Faust's tables take seconds."""
    topic = STATE.full_name(settings.topic_prefix)
    mine = [TopicPartition(topic, partition) for partition in partitions]
    if not mine:
        return {}
    remembered = {tp: RestoredState() for tp in mine}
    consumer = AIOKafkaConsumer(**client_options(settings), auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(mine)
        ends = await consumer.end_offsets(mine)
        starts = await consumer.beginning_offsets(mine)
        unread = {tp for tp in mine if ends[tp] > starts[tp]}
        for tp in mine:  # `seek_to_beginning` would wait for the fetcher, at times until the request timeout
            consumer.seek(tp, starts[tp])
        while unread:
            for tp, records in (await consumer.getmany(timeout_ms=200, max_records=AT_ONCE)).items():
                for record in records:
                    _take(remembered[tp], record.key, record.value)
            for tp in list(unread):
                if await consumer.position(tp) >= ends[tp]:
                    unread.discard(tp)
    finally:
        await consumer.stop()
    return {tp.partition: found for tp, found in remembered.items()}


def _take(remembered: RestoredState, key: bytes, value: bytes | None) -> None:
    try:
        remembered.take(key, value)
    except InvalidRecord as error:  # of a newer worker, or not ours
        log.warning("state entry %r skipped: %s", key[:80], error)
