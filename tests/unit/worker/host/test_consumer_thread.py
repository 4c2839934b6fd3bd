"""The consumer's thread: a poll is bounded in bytes, and what is under way at the end does not end it too soon."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from aiokafka.consumer.fetcher import READ_UNCOMMITTED, Fetcher, FetchResult, PartitionRecords
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from pipeline.worker.host.consumer_thread import BatchThread, end_fetches
from turnmill.limits import POLLED_BYTES

BATCHES, VALUE = 5, b"v" * 700_000  # of which each batch has four, in a few hundred bytes


def batch(base: int) -> bytes:
    kind: Any = {"magic": 2, "compression_type": 4, "is_transactional": 0}
    builder = DefaultRecordBatchBuilder(producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 26, **kind)
    for number in range(4):
        builder.append(number, 0, b"k", VALUE, [])
    data = builder.build()
    data[:8] = base.to_bytes(8, "big")
    return bytes(data)


async def test_a_poll_takes_no_more_bytes_than_it_may_and_the_next_one_goes_on() -> None:
    partitions = [TopicPartition("events", number) for number in range(2)]
    state = SubscriptionState()
    state.assign_from_user(set(partitions))
    data = b"".join(batch(4 * number) for number in range(BATCHES))
    fetcher: Any = SimpleNamespace(_records={})
    for partition in partitions:
        state.seek(partition, 0)
        records = PartitionRecords(partition, MemoryRecords(data), [], 0, None, None, True, READ_UNCOMMITTED)
        given: Any = {"assignment": state.subscription.assignment, "partition_records": records, "backoff": 0}
        fetcher._records[partition] = FetchResult(partition, **given)
    thread: Any = BatchThread(MagicMock(), loop=asyncio.get_running_loop())
    polls, offsets = 0, {partition: list[int]() for partition in partitions}
    while any(fetched.has_more() for fetched in fetcher._records.values()):
        thread._take_as_batches(fetcher)
        polls, took = polls + 1, 0
        for partition, fetched in fetcher._records.items():
            taken = fetched.getall(5000)
            if taken is not None:
                assert taken.start == (offsets[partition] or [-1])[-1] + 1
                offsets[partition] += [record.offset for record in taken.records]
                took += sum(len(record.value) for record in taken.records)
        assert took < POLLED_BYTES + len(VALUE)
    assert polls == 4
    assert list(offsets.values()) == [list(range(4 * BATCHES))] * 2


async def test_a_fetch_that_waits_to_try_again_does_not_stand_in_the_way_of_closing() -> None:
    waiting, fetching = (asyncio.create_task(asyncio.sleep(60)) for _ in range(2))
    fetcher: Any = SimpleNamespace(
        _closed=False, _fetch_task=fetching, _pending_tasks={waiting}, _fetch_waiters=set(), _notify=print
    )
    await asyncio.sleep(0)
    await end_fetches(fetcher)
    assert waiting.cancelled()
    assert fetching.cancelled()
    await Fetcher.close(fetcher)
