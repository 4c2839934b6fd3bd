"""Read from the broker which runs are open, exactly, also where nobody has followed them.

The committed offset of the assemble group never passes the first record of an open run that is not on the state topic.
So the runs are those of the state topic and of the records behind that offset; the offset is asked for first, as what
it passes later is on the state topic then, or read here, too.
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
from pipeline.worker.roles import ROLES
from topics.catalog import EVENTS, STATE

LEARN: Final = 3600.0  # seconds before the committed offset whose runs tell what is usual
LEARN_RECORDS: Final = 3_000  # of each partition at most
AT_ONCE: Final = 1_000  # records

Places = dict[TopicPartition, int]


async def open_runs(settings: Settings) -> RunList:
    """The runs that are open now. Raises BrokerError."""
    async with reader(settings, max_poll_records=AT_ONCE) as consumer:
        return (await restored(settings, consumer))[0]


async def restored(settings: Settings, consumer: AIOKafkaConsumer) -> tuple[RunList, Places]:
    """-> the runs that are open now, and where to go on in both topics. Raises BrokerError, and the client's errors."""
    lags = await group_lag(settings, ROLES["assemble"].group(settings), [EVENTS])
    needed = {TopicPartition(row.topic, row.partition): max(row.begin, row.committed or 0) for row in lags}
    spans = await bounds(settings, [EVENTS, STATE])
    events = EVENTS.full_name(settings.topic_prefix)
    usual = UsualSilence()
    await _learn(settings, consumer, usual, {place: (spans[place][0], at) for place, at in needed.items()})
    runs = _fresh(settings, usual)
    begins = {place: (begin, end) for place, (begin, end) in spans.items() if place.topic != events}
    async for _, records in read(consumer, begins):
        for record in records:
            runs.take_state(record.key, record.value)
    async for _, records in read(consumer, {place: (at, max(at, spans[place][1])) for place, at in needed.items()}):
        for record in records:
            runs.take_event(record.value, record.offset, record.timestamp)
    return runs, {place: end for place, (_, end) in spans.items()}


async def _learn(
    settings: Settings, consumer: AIOKafkaConsumer, usual: UsualSilence, before: dict[TopicPartition, tuple[int, int]]
) -> None:
    """Learn from the records before the committed offsets. Which of their runs are open is not known."""
    past = _fresh(settings, usual)
    since = await offsets_at(
        consumer, int((time.time() - LEARN) * 1000), {place: at for place, (_, at) in before.items()}
    )
    spans = {
        place: (max(begin, at - LEARN_RECORDS, min(since[place], at)), at) for place, (begin, at) in before.items()
    }
    async for _, records in read(consumer, spans):
        for record in records:
            past.take_event(record.value, record.offset, record.timestamp)


def _fresh(settings: Settings, usual: UsualSilence) -> RunList:
    return RunList(int(settings.reopen_window * 1000), usual)
