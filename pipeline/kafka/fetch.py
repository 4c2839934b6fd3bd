"""The consumer's thread: records as aiokafka's parser gives them, without a ConsumerRecord around each.

That object costs a third of reading, and nobody here asks for what it adds: a batch is of one topic and partition.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

# Faust waits 1.5 s at the end of a partition, and a fetch under way holds up all others of the same broker.
FETCH_WAIT_MS: Final = 200


class BatchThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]  # Faust has no types
    """Faust's consumer thread; `getmany` gives DefaultRecords: offset, timestamp, key, value, headers."""

    logger = driver.logger

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS  # noqa: SLF001  # Faust has no setting for it
        return consumer

    async def _fetch_records(
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None = None,  # noqa: ASYNC109  # Faust's signature
        max_records: int | None = None,
    ) -> dict[Any, list[Any]]:
        fetcher = consumer._fetcher  # noqa: SLF001  # as Faust does
        _keep_as_parsed(fetcher)
        found = await super()._fetch_records(consumer, active_partitions, 0, max_records)
        if not found and self.consumer.flow_active and await _arrival(fetcher, timeout):
            _keep_as_parsed(fetcher)
            found = await super()._fetch_records(consumer, active_partitions, 0, max_records)
        return found  # type: ignore[no-any-return]


def _keep_as_parsed(fetcher: Any) -> None:
    for fetched in fetcher._records.values():  # noqa: SLF001
        records = getattr(fetched, "_partition_records", None)
        if records is not None:
            records._consumer_record = _as_parsed  # noqa: SLF001


def _as_parsed(_: Any, record: Any) -> Any:
    return record


async def _arrival(fetcher: Any, timeout: float | None) -> bool:  # noqa: ASYNC109  # returns, raises nothing
    """Wait until something was fetched. Raises what the broker refuses us with."""
    arrival = fetcher._create_fetch_waiter()  # noqa: SLF001
    await asyncio.wait([arrival], timeout=timeout)
    if not arrival.done():
        arrival.cancel()
        return False
    arrival.result()
    return not fetcher._closed  # noqa: SLF001
