"""Read topics from given offsets to given ends, or without end, without a group and without commits.

Fetches are unpacked within bounds, and errors of the client become BrokerErrors, or CallerErrors if the settings are
the cause. `read_once` yields the records of some partitions, `records_of` those of a whole topic, `record_at` a single
one. Who reads several times takes a consumer from `reader`, and its records from `read` or `follow`.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final, NoReturn

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from pipeline.kafka.offsets import Bounds, bounds
from topics.catalog import Topic
from turnmill.ending import stopped
from turnmill.errors import BrokerError, TurnmillError
from turnmill.kafka.client import client_options
from turnmill.kafka.refusal import refusal
from turnmill.kafka.unpacking import bounded
from turnmill.settings import BrokerSettings

ANSWER_TIMEOUT: Final = 15.0  # seconds to wait for the broker
POLL_MS: Final = 500
MAX_OFFSET: Final = 2**63 - 1
PARTITIONS_INTERVAL = 10.0  # seconds between two checks of the topics' partitions


@asynccontextmanager
async def reader(settings: BrokerSettings, **options: Any) -> AsyncIterator[AIOKafkaConsumer]:
    """Yield a started consumer; `options` are aiokafka's.

    A failure within the block becomes a BrokerError, or a CallerError if the settings are the cause.
    """
    async with answering(settings):
        consumer = new_consumer(settings, **options)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await consumer.start()
            yield consumer
        finally:
            await stop(consumer)


def new_consumer(settings: BrokerSettings, **options: Any) -> AIOKafkaConsumer:
    """Return a consumer without a group, not started yet.

    If retention has removed its offset, it continues at the next one.
    """
    options = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **options}
    return bounded(AIOKafkaConsumer(**client_options(settings), **options))


async def stop(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer within some seconds, even if the broker is away; raises nothing."""
    with suppress(KafkaError, OSError, TimeoutError):
        await stopped(consumer.stop())


@asynccontextmanager
async def answering(settings: BrokerSettings) -> AsyncIterator[None]:
    """Turn a client's errors within the block into BrokerErrors, or CallerErrors if the settings are the cause."""
    try:
        yield
    except (KafkaError, OSError, TimeoutError) as error:
        if reason := await refusal(settings):
            raise reason from error
        what = str(error) or f"no answer for {ANSWER_TIMEOUT:.0f} s"
        raise BrokerError(f"Kafka at {settings.brokers}: {what}; `turnmill doctor` says what is wrong") from error


async def read(
    consumer: AIOKafkaConsumer, spans: Mapping[TopicPartition, tuple[int, int]]
) -> AsyncGenerator[tuple[TopicPartition, list[Any]]]:
    """Yield batches of aiokafka's records from each partition's first offset to before its last, each in order.

    One fetch is in memory at a time, of at most `max_poll_records`. Raises TimeoutError if no record comes within
    ANSWER_TIMEOUT.
    """
    unread = {partition: end for partition, (begin, end) in spans.items() if begin < end}
    positions = {partition: spans[partition][0] for partition in unread}
    consumer.assign(list(unread))
    for partition, begin in positions.items():  # `seek_to_beginning` may wait until the request timeout
        consumer.seek(partition, begin)
    heard = time.monotonic()
    while unread:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            fetched = await consumer.getmany(*unread, timeout_ms=POLL_MS)
        for partition, records in fetched.items():
            end = unread[partition]
            within = records if records[-1].offset < end else [record for record in records if record.offset < end]
            if within:
                yield partition, within
        for partition in list(unread):
            position = await consumer.position(partition)
            if position > positions[partition]:
                positions[partition], heard = position, time.monotonic()
            if position >= unread[partition]:
                del unread[partition]
        await asyncio.sleep(0)  # aiokafka gives fetched records without a pause: let the loop's other tasks run
        if time.monotonic() - heard > ANSWER_TIMEOUT:
            raise TimeoutError


async def read_once(
    settings: BrokerSettings, partitions: Bounds | Collection[TopicPartition], **options: Any
) -> AsyncGenerator[tuple[TopicPartition, list[Any]]]:
    """As `read`, with a consumer of its own, to which `options` go. Partitions without bounds are read as a whole."""
    async with reader(settings, **options) as consumer:
        spans = partitions if isinstance(partitions, dict) else await _bounds(consumer, partitions)
        async with aclosing(read(consumer, spans)) as batches:
            async for batch in batches:
                yield batch


async def _bounds(consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition]) -> Bounds:
    begins, ends = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    return {partition: (begins[partition], ends[partition]) for partition in partitions}


async def records_of(settings: BrokerSettings, topic: Topic) -> AsyncGenerator[Any]:
    """Yield all current records of a topic, each partition in order. Raises BrokerError."""
    async for _, records in read_once(settings, await bounds_of(settings, topic)):
        for record in records:
            yield record


async def record_at(settings: BrokerSettings, partition: TopicPartition, offset: int) -> Any | None:
    """Return the record at an offset; None if retention has removed it. Raises BrokerError."""
    async with reader(settings) as consumer:
        begin, _ = (await _bounds(consumer, [partition]))[partition]
        if begin <= offset:
            async with aclosing(read(consumer, {partition: (offset, offset + 1)})) as batches:
                async for _, records in batches:
                    return records[0]
    return None


def may_name(record: Any, thread_id: bytes) -> bool:
    """Return False if an events record is surely not of a thread; costs less than decoding it.

    The id may be in any case, and the key may be missing.
    """
    return (record.key or b"").lower() == thread_id or thread_id in (record.value or b"").lower()


async def bounds_of(settings: BrokerSettings, topic: Topic) -> Bounds:
    """Return (begin, end) of each partition of a topic. Raises BrokerError, also if the topic is missing."""
    offsets = await bounds(settings, [topic])
    if not offsets:
        name = topic.full_name(settings.topic_prefix)
        raise BrokerError(f"{settings.brokers} has no topic {name}: `turnmill topics apply` creates it")
    return offsets


async def offsets_at(consumer: AIOKafkaConsumer, at: int, ends: Mapping[TopicPartition, int]) -> dict[Any, int]:
    """Return each partition's first offset of broker time `at` (epoch ms) or later; its end if there is none."""
    async with asyncio.timeout(ANSWER_TIMEOUT):
        times = await consumer.offsets_for_times(dict.fromkeys(ends, at)) if ends else {}
    return {partition: row.offset if (row := times.get(partition)) else end for partition, end in ends.items()}


async def offsets_since(
    settings: BrokerSettings,
    consumer: AIOKafkaConsumer,
    topics: Collection[Topic],
    seconds: float,
    most: int = MAX_OFFSET,
) -> dict[TopicPartition, int]:
    """Return by partition the first offset of the last `seconds`, or of the last `most` records if that is later.

    The partition's end if there is none. Raises BrokerError, and the client's errors.
    """
    ends = {partition: end for partition, (_, end) in (await bounds(settings, topics)).items()}
    since = await offsets_at(consumer, int((time.time() - seconds) * 1000), ends)
    return {partition: max(since[partition], end - most) for partition, end in ends.items()}


async def follow(
    settings: BrokerSettings,
    consumer: AIOKafkaConsumer,
    topics: Collection[Topic],
    starts: Mapping[TopicPartition, int],
) -> AsyncGenerator[dict[TopicPartition, list[Any]]]:
    """Yield the records of each poll from these offsets on, by partition; an empty dict after POLL_MS without any.

    Ends when the topics have other partitions than `starts`. Raises the client's errors, and BrokerError.
    """
    consumer.assign(list(starts))
    for partition, start in starts.items():
        consumer.seek(partition, start)
    looking = asyncio.create_task(_others(settings, topics, starts))  # concurrent: it connects while records come
    try:
        while not looking.done():
            yield await consumer.getmany(timeout_ms=POLL_MS)
        looking.result()
    finally:
        looking.cancel()


async def _others(settings: BrokerSettings, topics: Collection[Topic], known: Mapping[TopicPartition, int]) -> None:
    """Return when the topics have other partitions than those known. Raises BrokerError."""
    while True:
        await asyncio.sleep(PARTITIONS_INTERVAL)
        if (await bounds(settings, topics)).keys() != known.keys():
            return


async def follow_on(
    follow: Callable[[], Awaitable[None]],
    stopped: Callable[[str | None], None],
    *,
    pause: float,
    log: logging.Logger,
    meanwhile: str,
) -> NoReturn:
    """Call `follow`, and again `pause` seconds after each return or exception.

    `stopped` is called with the reason each time; None: it has returned, since the topics' partitions have changed.
    Failures are logged as `meanwhile`, a text that says what doesn't work until then, followed by the reason.
    """
    while True:
        trouble = None
        try:
            await follow()
        except TurnmillError as error:
            trouble = str(error) or repr(error)
            log.warning("%s: %s", meanwhile, trouble)
        except Exception as error:  # whatever it is, following must start again
            trouble = repr(error)
            log.exception("%s", meanwhile)
        stopped(trouble)
        await asyncio.sleep(pause)


def bytes_of(record: Any) -> int:
    """Return the size of a Kafka record's value in bytes."""
    return len(record.value or b"")


def portions(
    records: Sequence[Any], most: int, most_bytes: int, size_of: Callable[[Any], int] = bytes_of
) -> Iterator[Sequence[Any]]:
    """Yield the records in portions of at most `most`, and of at most `most_bytes` unless it is a single record."""
    if len(records) == 1:
        yield records
        return
    sizes = [size_of(record) for record in records]
    if records and len(records) <= most and sum(sizes) <= most_bytes:
        yield records
        return
    begin = size = 0
    for end, more in enumerate(sizes):
        if end > begin and (end - begin == most or size + more > most_bytes):
            yield records[begin:end]
            begin, size = end, 0
        size += more
    if begin < len(records):
        yield records[begin:]
