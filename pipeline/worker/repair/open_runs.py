"""Reads from the broker exactly which runs are open, without having followed them.

The committed offset of the assemble group never passes the first record of an open run that is not on the state topic.
So the open runs are on the state topic, or among the records after that offset. The offset is requested first: records
that it passes later are then on the state topic, or are read here, too.
"""

from __future__ import annotations

import time
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from pipeline.assembly.run_list import RunList
from pipeline.assembly.usual_silence import UsualSilence
from pipeline.kafka.offsets import bounds, group_lag
from pipeline.kafka.reading import offsets_at, read, reader
from pipeline.worker.host.roles import ROLES
from topics.catalog import EVENTS, STATE
from turnmill.settings import BrokerSettings

LEARN_SECONDS: Final = 3600.0  # seconds before the committed offset; their runs determine the usual silence
LEARN_RECORDS: Final = 3_000  # maximum per partition
BATCH_SIZE: Final = 1_000  # records


async def open_runs(brokers: BrokerSettings, reopen_ms: int) -> RunList:
    """Return the runs that are open now; `reopen_ms`: see `Limits`. Raises BrokerError."""
    runs = RunList(reopen_ms, UsualSilence())
    async with reader(brokers, max_poll_records=BATCH_SIZE) as consumer:
        starts = await beginnings(brokers, consumer, reopen_ms, runs.usual)
        ends = await bounds(brokers, [EVENTS, STATE])
        spans = {partition: (start, ends[partition][1]) for partition, start in starts.items()}
        async for partition, records in read(consumer, spans):
            for record in records:
                if partition.topic == EVENTS.full_name(brokers.topic_prefix):
                    runs.take_event(record.value, record.offset, record.timestamp)
                else:
                    runs.take_state(record.key, record.value)
    return runs


async def beginnings(
    brokers: BrokerSettings, consumer: AIOKafkaConsumer, reopen_ms: int, usual: UsualSilence
) -> dict[TopicPartition, int]:
    """Return the offsets of both topics from which open runs can be derived.

    `usual` is learnt from the last records before the committed offsets, which don't show which of their runs are open.
    The ends must be requested afterwards. Raises BrokerError, and the client's errors.
    """
    lags = await group_lag(brokers, ROLES["assemble"].group(brokers), [EVENTS])
    needed = {TopicPartition(row.topic, row.partition): max(row.begin, row.committed or 0) for row in lags}
    begins = {partition: begin for partition, (begin, _) in (await bounds(brokers, [EVENTS, STATE])).items()}
    since = await offsets_at(consumer, int((time.time() - LEARN_SECONDS) * 1000), needed)
    spans = {
        partition: (max(begins[partition], end - LEARN_RECORDS, min(since[partition], end)), end)
        for partition, end in needed.items()
    }
    past = RunList(reopen_ms, usual)
    async for _, records in read(consumer, spans):
        for record in records:
            past.take_event(record.value, record.offset, record.timestamp)
    return begins | needed
