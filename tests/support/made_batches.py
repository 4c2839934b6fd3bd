"""Batches of records that no client of Python would write: put together by hand, and written as they are."""

from collections.abc import Callable, Sequence

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from pipeline.settings import Settings
from topics.catalog import EVENTS
from turnmill.kafka.pieces import BEHIND_CHECKSUM, HEADER

Record = tuple[bytes | None, bytes]  # key, value


def made(records: Sequence[Record], codec: int, pack: Callable[[bytes], bytes]) -> bytes:
    """A batch of format 2; `codec`: Kafka's number, `pack`: what packs its records."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, 1 << 30)
    for number, (key, value) in enumerate(records):
        assert builder.append(number, 1_768_928_342_002, key, value, []) is not None
    whole = bytes(builder.build())
    packed = pack(whole[HEADER.size :])
    fields = list(HEADER.unpack_from(whole))
    fields[1], fields[5] = HEADER.size - 12 + len(packed), codec
    fields[4] = calc_crc32c((HEADER.pack(*fields) + packed)[BEHIND_CHECKSUM:])
    return HEADER.pack(*fields) + packed


async def put(settings: Settings, partition: int, *batches: bytes) -> None:
    """Write batches to a partition of the events topic."""
    client = AIOKafkaClient(bootstrap_servers=settings.broker_list)
    await client.bootstrap()
    try:
        topic = EVENTS.full_name(settings.topic_prefix)
        await client.set_topics([topic])
        for each in batches:
            (broker,) = client.cluster.brokers()
            answer = await client.send(broker.nodeId, ProduceRequest(None, -1, 30_000, [(topic, [(partition, each)])]))
            [(_, [(_, error, *_)])] = answer.topics
            assert error == 0, f"the broker answers {error}"
    finally:
        await client.close()
