"""The consumer's thread: returns records as aiokafka's parser makes them, without a ConsumerRecord around each.

That object costs a third of reading, and what it adds is not needed: all of a batch is of the same topic and partition.
"""

import asyncio
import weakref
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.client import ConnectionGroup
from aiokafka.consumer.fetcher import FetchResult
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from pipeline.worker.host.work import Batch
from turnmill.kafka.unpacking import bounded
from turnmill.limits import POLLED_BYTES

# Faust waits 1.5 s at the end of a partition, and a fetch under way blocks all others of the same broker.
FETCH_WAIT_MS: Final = 200


class BatchThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]  # Faust has no types
    """Faust's consumer thread; `getmany` gives Batches of DefaultRecords: offset, timestamp, key, value, headers."""

    logger = driver.logger
    _left = 0  # bytes of values that this poll may still return

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS  # noqa: SLF001  # Faust has no setting for it
        return bounded(consumer)

    async def on_thread_stop(self) -> None:
        """Leave the group at once, even during a rebalance, which may be waiting for a dead member.

        aiokafka would wait for the end of the rebalance, or for a commit that is cancelled with this thread: that ends
        the thread silently, and whoever stops it waits for ever. The last checkpoint has been made by now.
        """
        coordinator = self._consumer._coordinator if self._consumer is not None else None  # noqa: SLF001
        if coordinator is not None:
            await _end_rebalance(coordinator)
        if self._consumer is not None and self._consumer._fetcher is not None:  # noqa: SLF001
            await end_fetches(self._consumer._fetcher)  # noqa: SLF001
        await super().on_thread_stop()

    async def _fetch_records(
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None = None,  # noqa: ASYNC109  # Faust's signature
        max_records: int | None = None,
    ) -> dict[Any, list[Any]]:
        fetcher = consumer._fetcher  # noqa: SLF001  # as Faust does
        self._take_as_batches(fetcher)
        fetched = await super()._fetch_records(consumer, active_partitions, 0, max_records)
        if not fetched and self.consumer.flow_active and await _arrival(fetcher, timeout):
            self._take_as_batches(fetcher)
            fetched = await super()._fetch_records(consumer, active_partitions, 0, max_records)
        return fetched  # type: ignore[no-any-return]

    def _take_as_batches(self, fetcher: Any) -> None:
        self._left = POLLED_BYTES
        for fetched in fetcher._records.values():  # noqa: SLF001  # aiokafka does not show what it has fetched
            if isinstance(fetched, FetchResult) and "getall" not in vars(fetched):
                # A cycle would keep megabytes until it is collected.
                fetched.getall = partial(self._take, weakref.ref(fetched))

    def _take(self, reference: weakref.ref[Any], max_records: int | None = None) -> Batch | None:
        """As `FetchResult.getall`, but take no more bytes than the poll may return, and return the new position, too.

        Faust keeps five polls in memory, so records that a few bytes unpack to would fill it.
        """
        fetched: Any = reference()  # the caller holds a reference
        parsed = fetched._partition_records  # noqa: SLF001  # else nobody learns the position
        if parsed is None or self._left <= 0 or not fetched.check_assignment(fetched._topic_partition):  # noqa: SLF001  # as `getall`
            return None
        parsed._consumer_record = lambda _, record: record  # noqa: SLF001  # aiokafka has no setting for this
        start, records = parsed.next_fetch_offset, []
        for record in parsed._records_iterator:  # noqa: SLF001  # `parsed` itself costs a call more each
            records.append(record)
            self._left -= len(record.value or b"")
            if self._left <= 0 or len(records) == max_records:
                fetched._update_position()  # noqa: SLF001  # as `getall`
                break
        else:
            fetched._update_position()  # noqa: SLF001  # as `getall`
            fetched._partition_records = None  # noqa: SLF001  # read to its end, as `getall` says it
        return Batch(records, start, parsed.next_fetch_offset)


async def _end_rebalance(coordinator: Any) -> None:
    coordinator._coordination_task.cancel()  # noqa: SLF001
    await asyncio.wait([coordinator._coordination_task])  # noqa: SLF001
    if coordinator._performed_join_prepare:  # noqa: SLF001  # it has joined: the broker answers that before the rest
        connections = coordinator._client._conns  # noqa: SLF001
        if joining := connections.get((coordinator.coordinator_id, ConnectionGroup.COORDINATION)):
            joining.close()


async def end_fetches(fetcher: Any) -> None:
    """Cancel the fetches of an aiokafka fetcher before it is closed.

    Closing cancels a fetch, too; but one that waits to retry, since its connection was cut, then ends the thread that
    closes the fetcher.
    """
    under_way = [fetcher._fetch_task, *fetcher._pending_tasks]  # noqa: SLF001
    for task in under_way:
        task.cancel()
    await asyncio.wait(under_way)
    fetcher._pending_tasks.clear()  # noqa: SLF001


async def _arrival(fetcher: Any, timeout: float | None) -> bool:  # noqa: ASYNC109  # returns, raises nothing
    """Wait until something is fetched. Raises the broker's refusal."""
    arrival = fetcher._create_fetch_waiter()  # noqa: SLF001
    await asyncio.wait([arrival], timeout=timeout)
    if not arrival.done():
        arrival.cancel()
        return False
    arrival.result()
    return not fetcher._closed  # noqa: SLF001
