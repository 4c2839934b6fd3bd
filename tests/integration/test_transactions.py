"""Publishers that use Kafka's transactions: the markers that these leave in a partition are no records."""

from collections.abc import Sequence

from aiokafka import AIOKafkaProducer

from pipeline.kafka.offsets import group_lag
from pipeline.settings import Settings
from pipeline.worker.host.roles import ROLES
from tests.support.fleet import expected, fleet
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import EVENTS


async def test_the_end_of_a_transaction_is_neither_a_hole_nor_lag(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"idle_timeout": 3.0})
    whole, cut = fleet(8, 2)
    process = WorkerProcess(settings).start()
    try:
        await publish_in_transactions(settings, whole.key, whole.values())
        await publish_in_transactions(settings, cut.key, cut.values()[:1])
        found = await wait_until_stored(settings, 2, [process])
        await until_no_lag(settings)
    finally:
        process.end()
    assert expected([whole]).items() <= found.items()
    assert "again from" not in process.text(), "markers were taken for records that were lost on the way"


async def until_no_lag(settings: Settings) -> None:
    async def no_lag() -> bool:
        return sum(row.lag for row in await group_lag(settings, ROLES["assemble"].group(settings), [EVENTS])) == 0

    await until(no_lag, lambda: "what is committed ends before the markers")


async def publish_in_transactions(settings: Settings, key: bytes, values: Sequence[bytes]) -> None:
    """One for each record."""
    producer = AIOKafkaProducer(bootstrap_servers=settings.broker_list, transactional_id=settings.topic_prefix)
    await producer.start()
    try:
        for value in values:
            async with producer.transaction():
                await producer.send(EVENTS.full_name(settings.topic_prefix), value, key=key)
    finally:
        await producer.stop()
