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
from pipeline.settings import Settings
from pipeline.worker.host.roles import ROLES
from topics.catalog import EVENTS, STATE

LEARN_SECONDS: Final = 3600.0  # seconds before the committed offset; their runs determine the usual silence
LEARN_RECORDS: Final = 3_000  # maximum per partition
BATCH_SIZE: Final = 1_000  # records

Places = dict[TopicPartition, int]


async def open_runs(settings: Settings) -> RunList:
    """Return the runs that are open now. Raises BrokerError."""
    runs = no_runs(settings)
    async with reader(settings, max_poll_records=BATCH_SIZE) as consumer:
        starts = await beginnings(settings, consumer, runs.usual)
        ends = await bounds(settings, [EVENTS, STATE])
        async for place, records in read(consumer, {place: (start, ends[place][1]) for place, start in starts.items()}):
            for record in records:
                if place.topic == EVENTS.full_name(settings.topic_prefix):
                    runs.take_event(record.value, record.offset, record.timestamp)
                else:
                    runs.take_state(record.key, record.value)
    return runs


def no_runs(settings: Settings) -> RunList:
    """Return an empty list of runs."""
    return RunList(int(settings.reopen_window * 1000), UsualSilence())


async def beginnings(settings: Settings, consumer: AIOKafkaConsumer, usual: UsualSilence) -> Places:
    """Return the offsets of both topics from which open runs can be derived; learn `usual` from earlier events.

    The ends must be requested afterwards. Raises BrokerError, and the client's errors.
    """
    lags = await group_lag(settings, ROLES["assemble"].group(settings), [EVENTS])
    needed = {TopicPartition(row.topic, row.partition): max(row.begin, row.committed or 0) for row in lags}
    begins = {place: begin for place, (begin, _) in (await bounds(settings, [EVENTS, STATE])).items()}
    await _learn(settings, consumer, usual, {place: (begins[place], at) for place, at in needed.items()})
    return begins | needed


async def _learn(
    settings: Settings, consumer: AIOKafkaConsumer, usual: UsualSilence, before: dict[TopicPartition, tuple[int, int]]
) -> None:
    """Learn from the records before the committed offsets, which don't show which of their runs are open."""
    past = RunList(int(settings.reopen_window * 1000), usual)
    since = await offsets_at(
        consumer, int((time.time() - LEARN_SECONDS) * 1000), {place: at for place, (_, at) in before.items()}
    )
    spans = {
        place: (max(begin, at - LEARN_RECORDS, min(since[place], at)), at) for place, (begin, at) in before.items()
    }
    async for _, records in read(consumer, spans):
        for record in records:
            past.take_event(record.value, record.offset, record.timestamp)
