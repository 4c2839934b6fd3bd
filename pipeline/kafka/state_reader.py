"""Read the state topic's partitions to their end: what open and closed runs a partition had."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from pipeline.kafka.client import client_options
from pipeline.settings import Settings
from topics import state
from topics.catalog import STATE
from topics.errors import InvalidRecord
from topics.state import Closed, RunKey, Segment

log = logging.getLogger(__name__)

Entries = dict[RunKey, list[Segment | Closed]]


async def read_state(settings: Settings, partitions: Iterable[int]) -> dict[int, Entries]:
    """-> per partition, the entries of each run. A plain consumer without a group: Faust's tables take seconds."""
    topic = STATE.full_name(settings.topic_prefix)
    mine = [TopicPartition(topic, partition) for partition in partitions]
    if not mine:
        return {}
    latest: dict[TopicPartition, dict[bytes, bytes]] = {tp: {} for tp in mine}
    consumer = AIOKafkaConsumer(**client_options(settings), auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(mine)
        ends = await consumer.end_offsets(mine)
        starts = await consumer.beginning_offsets(mine)
        unread = {tp for tp in mine if ends[tp] > starts[tp]}
        await consumer.seek_to_beginning(*mine)
        while unread:
            for tp, records in (await consumer.getmany(timeout_ms=200)).items():
                held = latest[tp]
                for record in records:
                    if record.value is None:
                        held.pop(record.key, None)
                    else:
                        held[record.key] = record.value
            for tp in list(unread):
                if await consumer.position(tp) >= ends[tp]:
                    unread.discard(tp)
    finally:
        await consumer.stop()
    return {tp.partition: _decoded(held) for tp, held in latest.items()}


def _decoded(held: dict[bytes, bytes]) -> Entries:
    entries: Entries = {}
    for key, value in held.items():
        try:
            run, entry = state.decode(key, value)
        except InvalidRecord as error:  # of a newer worker, or not ours
            log.warning("state entry %r skipped: %s", key[:80], error)
            continue
        entries.setdefault(run, []).append(entry)
    return entries
